// Package soak says how long tests run whose result is the better the longer they do.
//
// It does not know the tests.
package soak

import "os"

// Rounds returns how often a test repeats what chance has a part in: as often as fits a run of all tests or, where
// LIVECONFIG_SOAK is set, as often as it takes to believe the result.
func Rounds(usual, soak int) int {
	if os.Getenv("LIVECONFIG_SOAK") != "" {
		return soak
	}
	return usual
}

// Package soak says how long tests run whose result is the better the longer they do.
//
// It does not know the tests.
package soak

import (
	"os"
	"testing"
)

// Rounds returns how often a test repeats what chance has a part in: as often as fits a run of all tests or, where
// LIVECONFIG_SOAK is set, as often as it takes to believe the result.
func Rounds(usual, soak int) int {
	if os.Getenv("LIVECONFIG_SOAK") != "" {
		return soak
	}
	return usual
}

// Asked returns the value of a variable of the environment, and usual if it is not set.
func Asked[T any](t testing.TB, variable string, usual T, parse func(text string) (T, error)) T {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	value, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return value
}

//go:build !race

package lab

// buildFlags build the driver as the tests are built.
func buildFlags() []string { return nil }

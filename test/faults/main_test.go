// Package faults makes happen what has gone wrong in drivers of this kind, to the whole driver from outside: a real
// process, a real API server, real mounts. Faults have numbers; test/FAULTS.md lists them with the tests that prove what
// holds here for each, wherever those are, and a test of this package holds the list to them.
//
// A test says in its doc comment which faults it proves: fault 18, faults 12 to 14.
package faults

import (
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// TestMain runs the tests in a mount namespace of their own, with one cluster for all. What each of them stands on is a
// bench of test/kit/fixture.
func TestMain(m *testing.M) { os.Exit(environment.Main(m)) }

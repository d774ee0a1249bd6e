// Package driver tests the whole driver from outside: a real process, a real API server, real mounts. Many of its tests make
// happen what has gone wrong in drivers of this kind; test/FAULTS.md lists those faults with the tests that prove what holds.
//
// Every value that a test puts into an object is marked, and a test fails if a mark turns up outside of volumes: see
// environment.Mark. The helpers add the marks and remove them again. A test that needs exact bytes has environment.Mark among
// them.
package driver

import (
	"flag"
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// atATime is how many tests run in parallel, unless the command line sets another number. Most of them wait.
const atATime = "8"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atATime); err != nil { // The command line is parsed later and wins.
		panic(err)
	}
	os.Exit(environment.Main(m))
}

// soon is how long something may take that takes milliseconds when nothing else runs on the machine.
const soon = fixture.Soon

// rig is a fixture with further helpers.
type rig struct{ *fixture.Fixture }

func newRig(t testing.TB, args ...string) *rig {
	t.Helper()
	return &rig{fixture.New(t, args...)}
}

// newRigWithout returns a rig without an API server, for tests that do not need one.
func newRigWithout(t testing.TB, args ...string) *rig {
	t.Helper()
	return &rig{fixture.Without(t, args...)}
}

// overOrigins runs a test with objects of an API server, and with manifests.
// What holds with one holds with the other.
func overOrigins(t *testing.T, test func(t *testing.T, b *rig), args ...string) {
	t.Helper()
	origins := map[string]func(testing.TB, ...string) *rig{"API server": newRig, "manifests": newRigWithout}
	for name, newRig := range origins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, args...))
		})
	}
}

// bareOrigins are those of overOrigins for tests that start the driver in their own way.
func bareOrigins() map[string]func(testing.TB) *fixture.Fixture {
	return map[string]func(testing.TB) *fixture.Fixture{"API server": fixture.NewBare, "manifests": fixture.BareWithout}
}

// newBareRig returns a rig without a node.
func newBareRig(t testing.TB) *rig {
	t.Helper()
	return &rig{fixture.NewBare(t)}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

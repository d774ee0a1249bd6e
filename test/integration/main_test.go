// Package integration tests the driver from outside: a real process, a real API server, real mounts.
//
// Every value that a test puts into an object is marked, and each test fails in which a mark turns up outside of volumes:
// see environment.Mark. The helpers put the marks on and take them off again, so that tests do not speak of them. A test that
// needs exact bytes has environment.Mark among them.
package integration

import (
	"flag"
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
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
const soon = kit.Soon

// bench is one test's corner of the lab, with what the tests here need of it besides.
type bench struct{ *kit.Fixture }

func newBench(t testing.TB, args ...string) *bench {
	t.Helper()
	return &bench{kit.New(t, args...)}
}

// newBenchWithout returns a bench without an API server, for tests that do not need one.
func newBenchWithout(t testing.TB, args ...string) *bench {
	t.Helper()
	return &bench{kit.Without(t, args...)}
}

// origins are benches with objects of an API server, and with manifests: what holds with one holds with the other.
func origins() map[string]func(t testing.TB, args ...string) *bench {
	return map[string]func(t testing.TB, args ...string) *bench{"API server": newBench, "manifests": newBenchWithout}
}

// newCorner returns a bench without a node.
func newCorner(t testing.TB) *bench {
	t.Helper()
	return &bench{kit.NewBare(t)}
}

// Package driver tests the whole driver from outside: a real process, a real API server, real mounts. Many of its tests make
// happen what has gone wrong in drivers of this kind; test/FAULTS.md lists those faults with the tests that prove what holds.
//
// Every value that a test puts into an object is marked, and a test fails if a mark turns up outside of volumes: see
// environment.Mark. The helpers add the marks and remove them again. A test that needs exact bytes has environment.Mark among
// them.
package driver

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// atATime is how many tests run in parallel, unless the command line sets another number. Most of them wait.
const atATime = "8"

func TestMain(m *testing.M) {
	if value := os.Getenv(intruderVariable); value != "" {
		os.Exit(runIntruder(value))
	}
	if err := flag.Set("test.parallel", atATime); err != nil { // The command line is parsed later and wins.
		panic(err)
	}
	os.Exit(environment.Main(m))
}

// rig is a fixture with further helpers.
type rig struct{ *fixture.Fixture }

// overOrigins runs a test with objects of an API server, and with manifests. What holds with one holds with the other. The tests
// that call this, or bareOrigins, run on other kernels too, with manifests: see package vm.
func overOrigins(t *testing.T, test func(t *testing.T, b *rig)) {
	t.Helper()
	origins := map[string]func(testing.TB, ...string) *fixture.Fixture{"API server": fixture.New, "manifests": fixture.Without}
	for name, newFixture := range origins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &rig{newFixture(t)})
		})
	}
}

// bareOrigins are those for tests that start the driver in their own way.
func bareOrigins() map[string]func(testing.TB) *fixture.Fixture {
	return map[string]func(testing.TB) *fixture.Fixture{"API server": fixture.NewBare, "manifests": fixture.BareWithout}
}

// change is [set] for goroutines.
func change(ctx context.Context, b *fixture.Fixture, name, value string) error {
	return b.PutConfigMap(ctx, name, map[string]string{"n": value})
}

// rssOf returns how many bytes of memory the driver's process has, those of its volumes not among them.
func rssOf(b *fixture.Fixture) int {
	b.T.Helper()
	const kiB = 1 << 10
	return kiB * (numberIn(b, "status", "VmRSS:") - numberIn(b, "status", "RssShmem:"))
}

// readBy returns how many bytes the driver has read, from wherever.
func readBy(b *fixture.Fixture) int {
	b.T.Helper()
	return numberIn(b, "io", "rchar:")
}

// numberIn returns the number behind a name in a file of the driver's process.
func numberIn(b *fixture.Fixture, file, name string) int {
	b.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", b.Node.PID(), file))
	expect.NoError(b.T, err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			n, err := strconv.Atoi(fields[1])
			expect.NoError(b.T, err)
			return n
		}
	}
	b.T.Fatalf("%s of the driver has no %s", file, name)
	return 0
}

// createSecrets makes so many Secrets of a size, large-0, large-1 and so on, and deletes them when the test ends, so that the
// API server need not hold them for other tests.
func createSecrets(b *fixture.Fixture, count, size int) {
	b.T.Helper()
	data := fixture.Marked(map[string]string{"x": strings.Repeat("x", size)})
	secrets := b.Cluster.Client().CoreV1().Secrets(b.Namespace)
	name := func(i int) string { return fmt.Sprintf("large-%d", i) }
	b.T.Cleanup(func() { // One by one: a request for all of them reads all, which may take longer than a request can.
		ctx := context.WithoutCancel(b.T.Context())
		expect.NoError(b.T, fixture.ForEach(ctx, count, func(ctx context.Context, i int) error {
			return secrets.Delete(ctx, name(i), metav1.DeleteOptions{})
		}))
	})
	expect.NoError(b.T, fixture.ForEach(b.T.Context(), count, func(ctx context.Context, i int) error {
		_, err := secrets.Create(ctx, fixture.Secret(name(i), data), metav1.CreateOptions{})
		return err
	}))
}

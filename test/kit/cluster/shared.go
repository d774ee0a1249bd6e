package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/shared"
)

// ofTests is the cluster of this test binary.
var ofTests shared.One[*Cluster]

// ForMain runs the tests of a binary that calls [ForTest], stops their cluster, and returns the exit status. When tests
// have failed, it shows the end of the API server's log:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }
func ForMain(m interface{ Run() int }) int {
	return ofTests.Main(m, func(c *Cluster, status int) error {
		if status != 0 {
			fmt.Fprintf(os.Stderr, "the API server's log ends with:\n%s", process.Tail(c.logPath(apiServerLog), 4096))
		}
		return c.Stop()
	})
}

// MainFunc makes a function fit where [ForMain] and mountns.Main want the tests, so that the two can be combined:
//
//	os.Exit(mountns.Main(cluster.MainFunc(func() int { return cluster.ForMain(m) })))
type MainFunc func() int

// Run calls the function.
func (f MainFunc) Run() int { return f() }

// ForTest returns the cluster that all tests of this binary share, and starts it for the first of them.
func ForTest(t testing.TB) *Cluster {
	t.Helper()
	return ofTests.Get(t, func(ctx context.Context) (*Cluster, error) { return Start(ctx, Config{}) })
}

// NewNamespace makes a namespace with a default service account for one test, under a name that no other test has, and
// returns the name.
func NewNamespace(t testing.TB, c *Cluster) string {
	t.Helper()
	name := "test-" + rand.String(8)
	if err := c.CreateNamespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

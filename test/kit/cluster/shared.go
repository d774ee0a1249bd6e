package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// shared is the cluster of this test binary. It is the one variable of the package, because the one thing that all tests
// of a binary have in common is the binary.
var shared struct {
	// mu guards the fields and is held while the cluster starts, so that parallel tests start one.
	mu sync.Mutex
	// main says that ForMain is going to stop what ForTest starts.
	main    bool
	cluster *Cluster
	err     error
}

// ForMain runs the tests of a binary that calls [ForTest], stops their cluster, and returns the exit status. When tests
// have failed, it shows the end of the API server's log:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }
func ForMain(m interface{ Run() int }) int {
	shared.mu.Lock()
	shared.main = true
	shared.mu.Unlock()

	status := m.Run()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		return status
	}
	if status != 0 {
		fmt.Fprintf(os.Stderr, "the API server's log ends with:\n%s", process.Tail(shared.cluster.logPath(apiServerLog), 4096))
	}
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the tests' cluster:", err)
		return max(status, 1)
	}
	return status
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
	// The cluster outlives the test that happens to be the first.
	c, err := sharedCluster(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return c
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

func sharedCluster(ctx context.Context) (*Cluster, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	switch {
	case !shared.main:
		return nil, errors.New("nobody would stop the tests' cluster: call cluster.ForMain in TestMain")
	case shared.cluster == nil && shared.err == nil:
		shared.cluster, shared.err = Start(ctx, Config{})
	}
	return shared.cluster, shared.err
}

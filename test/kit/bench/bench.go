// Package bench is one test's corner of the lab: a namespace of the shared cluster, a node with a driver of its own, and
// what tests say about the two, in few words.
//
// Every value that it puts into an object is marked, and each test fails in which a mark turns up outside of volumes: see
// lab.Mark. The helpers put the marks on and take them off again, so that tests do not speak of them. A test that needs
// exact bytes has lab.Mark among them.
//
// It does not know what is tested.
package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// Soon is how long something may take that takes milliseconds when nothing else runs on the machine.
const Soon = 20 * time.Second

// Bench is one test's corner of the lab. Its methods end the test when they cannot do what they say, and so belong into
// the test's own goroutine, except those that return an error.
type Bench struct {
	T         testing.TB
	Cluster   *cluster.Cluster // Nil for a bench without an API server.
	Namespace string
	Node      *node.Node
	HTTP      string // Where the driver serves metrics and health.

	objects store
	// Manifests is the directory of the objects of a bench without an API server.
	Manifests string
}

// New returns a bench with a node whose driver has further flags. The default service account of its namespace may read
// the Secrets there.
func New(t testing.TB, args ...string) *Bench {
	t.Helper()
	b := NewCorner(t)
	b.Use(lab.Node(t, append(args, "--http-endpoint="+b.HTTP)...))
	b.AllowSecrets("default")
	return b
}

// NewCorner returns a bench without a node. One that is started for it gets --http-endpoint with the bench's.
func NewCorner(t testing.TB) *Bench {
	t.Helper()
	return NewCornerIn(t, lab.Cluster(t))
}

// NewCornerIn is [NewCorner] in a cluster that is not the shared one.
func NewCornerIn(t testing.TB, c *cluster.Cluster) *Bench {
	t.Helper()
	b := &Bench{T: t, Cluster: c, Namespace: "test-" + string(uuid.NewUUID()[:8]), HTTP: FreeAddress(t)}
	b.objects = clusterStore{b}
	if err := b.Cluster.CreateNamespace(t.Context(), b.Namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.wantNoLeakInEvents) // When the driver has ended.
	return b
}

// Without returns a bench without an API server: its objects are manifests, and Events go to the driver's log.
func Without(t testing.TB, args ...string) *Bench {
	t.Helper()
	b := CornerWithout(t)
	b.Node = lab.NodeWithout(t, b.Manifests, append(args, "--http-endpoint="+b.HTTP)...)
	return b
}

// CornerWithout is [Without] without a node.
func CornerWithout(t testing.TB) *Bench {
	t.Helper()
	b := &Bench{T: t, Namespace: "test-" + string(uuid.NewUUID()[:8]), HTTP: FreeAddress(t), Manifests: t.TempDir()}
	b.objects = manifestStore{dir: b.Manifests, namespace: b.Namespace}
	return b
}

// Use makes the node the bench's, whose kubelet sends tokens that are bound to pods.
func (b *Bench) Use(n *node.Node) {
	b.Node = n
	n.UseTokens(b.Cluster.PodToken)
}

// FreeAddress returns a loopback address that nobody listens on. It is of a host of its own, so that nobody else who takes any
// free port of 127.0.0.1 gets it meanwhile.
func FreeAddress(t testing.TB) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d", rand.IntnRange(1, 255), rand.IntnRange(1, 255), rand.IntnRange(1, 255))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Publish publishes the pod's volumes, and takes them away when the test ends.
func (b *Bench) Publish(pod *corev1.Pod) {
	b.T.Helper()
	if err := b.TryPublish(b.T.Context(), pod); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { b.Unpublish(pod) })
}

// TryPublish publishes the pod's volumes. Whatever the driver answers tells no secret.
func (b *Bench) TryPublish(ctx context.Context, pod *corev1.Pod) error {
	b.T.Helper()
	return b.Heard(b.Node.PublishAll(ctx, pod))
}

// Unpublish takes the pod's volumes away. Volumes that are not there are none.
func (b *Bench) Unpublish(pod *corev1.Pod) {
	b.T.Helper()
	lab.WantNoLeakInState(b.T, b.Node)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.T.Context()), Soon)
	defer cancel()
	if err := b.Heard(b.Node.UnpublishAll(ctx, pod)); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.T.Errorf("unpublish: %v", err)
	}
}

// Path returns where a file of the pod's volume is.
func (b *Bench) Path(pod *corev1.Pod, file string) string {
	return filepath.Join(b.Node.Target(pod, VolumeName), file)
}

// Kill ends the driver with SIGKILL.
func (b *Bench) Kill() {
	b.T.Helper()
	if err := b.Node.Kill(); err != nil {
		b.T.Fatal(err)
	}
}

// Stop ends the driver with SIGTERM.
func (b *Bench) Stop() {
	b.T.Helper()
	if err := b.Node.StopDriver(); err != nil {
		b.T.Fatal(err)
	}
}

// Start starts a driver that was stopped or killed.
func (b *Bench) Start() {
	b.T.Helper()
	if err := b.Node.StartDriver(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

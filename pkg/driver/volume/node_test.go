package volume_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

const (
	publishTimeout = 10 * time.Second
	// resyncInterval is so long that no test passes because of the safety net, but for those about it.
	resyncInterval = 10 * time.Hour
	// latency is how long the cluster takes for a first answer.
	latency = 10 * time.Millisecond
	// settling is longer than any answer or first retry takes, and than it takes for an absence to be believed.
	settling = absence + time.Second
)

// The objects of most tests.
var (
	web = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "web"}
	tls = api.Ref{Kind: api.Secret, Namespace: "default", Name: "tls"}
)

// node is what a run of the driver finds and leaves: the cluster, the mounts and the records. All of
// it is real but for the cluster.
type node struct {
	*testing.T
	dir     string
	faults  *faults
	mounts  *faultyMounts
	shares  bool // Equal volumes have one file system.
	records *records
	cluster *cluster
	seen    *reporter
	tokens  tokens
	secrets identity.Reader // Who reads Secrets, and what is in other namespaces.
	maps    identity.Reader // Who reads ConfigMaps.
	logs    ktesting.Buffer
	ctx     context.Context // Carries the logger.
	driver  *driver         // The latest.
	foreign bool            // The test leaves something on the node that is not the driver's.

	mu      sync.Mutex // Guards volumes.
	volumes []state.Record
}

// bubble runs a test in a synctest bubble, beside other tests: on a node where each volume has its own
// file system, and on one where equal volumes share one. The end of a bubble checks that no goroutine
// is left, and nothing of a volume once it is unpublished.
func bubble(t *testing.T, test func(n *node)) {
	t.Helper()
	t.Parallel()
	for name, shares := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.shares = shares
				test(n)
				n.end()
			})
		})
	}
}

// end unpublishes every volume that was published, and checks that nothing is left.
func (n *node) end() {
	n.Helper()
	if n.foreign || n.driver == nil || n.Failed() {
		return
	}
	n.faults.mend()
	d := n.driver
	if d.stopped {
		d = n.start()
	}
	for _, r := range n.volumes {
		d.unpublish(r)
	}
	n.wantNothing(d)
}

// bubbleCase is bubble for one case of a table.
func bubbleCase(t *testing.T, name string, test func(n *node)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	store, err := state.New(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(5), ktesting.BufferLogs(true)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the test logger is a %T", logger.GetSink())
	}
	n := &node{
		T: t, dir: dir, faults: newFaults(), cluster: newCluster(), seen: &reporter{},
		secrets: identity.ByDriver, maps: identity.ByDriver, logs: sink.GetBuffer(), ctx: klog.NewContext(t.Context(), logger),
	}
	n.records = &records{Store: store, faults: n.faults}
	n.mounts = &faultyMounts{
		FS:   volumefs.New(volumefs.Config{Root: dir, Source: "csi.test"}),
		Fail: func(op, _ string) error { return n.faults.ask(op) },
	}
	t.Cleanup(func() { // Else the directory could not be removed.
		for _, target := range n.mountPoints(dir) {
			_ = unix.Unmount(target, unix.MNT_DETACH)
		}
	})
	return n
}

// driver is one run of the driver.
type driver struct {
	*volume.Manager
	n   *node
	run func()
	// stop ends the run, as a kill would: nothing is done with the mounts, the records and the cluster.
	stop    func()
	stopped bool
}

// Publish remembers the volume for [node.end].
func (d *driver) Publish(ctx context.Context, r state.Record, t access.Token) error {
	err := d.Manager.Publish(ctx, vouched(r, t))
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	if err == nil && !slices.ContainsFunc(d.n.volumes, func(p state.Record) bool { return p.VolumeID == r.VolumeID }) {
		d.n.volumes = append(d.n.volumes, r)
	}
	return err
}

// vouched is a request of a kubelet that vouches for the pod.
func vouched(r state.Record, t access.Token) volume.Request {
	return volume.Request{Record: r, Token: func() access.Token { return t }, Vouch: func(context.Context) error { return nil }}
}

// isVouchedFor publishes, and reports whether the manager asks the kubelet to vouch for the pod, which it does not.
func (d *driver) isVouchedFor(r state.Record) bool {
	d.n.Helper()
	errAsked := errors.New("the kubelet does not vouch for the pod")
	isLook := func(op string) bool { return op == "mounted" || op == "open" }
	done := func() int { return len(slices.DeleteFunc(d.n.faults.order(), isLook)) }
	before := done()
	err := d.Manager.Publish(d.n.ctx, volume.Request{
		Record: r, Token: func() access.Token { return access.Token{} }, Vouch: func(context.Context) error { return errAsked },
	})
	isAsked := errors.Is(err, errAsked)
	if isAsked {
		wantSame(d.n, "done for a pod that nobody vouches for", before, done())
	}
	return !isAsked
}

// build makes a manager that has not taken over anything yet and does not run.
func (n *node) build(options ...func(*volume.Config)) *driver {
	n.Helper()
	cfg := volume.Config{
		Sources: n.cluster, Authority: n.authority(), Tokens: &n.tokens, Records: n.records, EarlierRecords: n.records,
		Mounts: n.mounts, Views: n.mounts, Reporter: n.seen,
		Room: roomy(), ShareVolumes: n.shares,
		PublishTimeout: publishTimeout, ResyncInterval: resyncInterval,
	}
	for _, option := range options {
		option(&cfg)
	}
	d := &driver{Manager: volume.New(cfg), n: n}
	n.driver = d
	n.cluster.restart(d.Changed)
	ctx, cancel := context.WithCancel(n.ctx)
	ended := make(chan error, 1)
	running := false
	d.run = func() {
		running = true
		go func() { ended <- d.Run(ctx) }()
	}
	d.stop = func() {
		if d.stopped {
			return
		}
		d.stopped = true
		cancel()
		if !running {
			d.run() // Which ends at once and lets go of the queue.
		}
		if err := <-ended; err != nil {
			n.Errorf("Run() = %v, want nil", err)
		}
	}
	n.Cleanup(d.stop)
	return d
}

// authority chooses by who reads Secrets and who ConfigMaps.
func (n *node) authority() *access.Authority {
	n.Helper()
	a, err := access.New(access.Config{
		Server: &rest.Config{Host: "https://localhost"}, Readers: identity.Readers{ConfigMaps: n.maps, Secrets: n.secrets},
	})
	n.must(err)
	return a
}

// start makes a manager that has taken over what an earlier one left, and runs.
func (n *node) start(options ...func(*volume.Config)) *driver {
	n.Helper()
	d := n.build(options...)
	if err := d.Recover(n.ctx); err != nil {
		n.Fatalf("Recover() = %v, want nil", err)
	}
	d.run()
	synctest.Wait()
	return d
}

func (d *driver) restart() *driver {
	d.n.Helper()
	d.stop()
	next := d.n.start()
	pass(settling)
	return next
}

// request is what the kubelet asks for, for a volume of that name of the pod default/app.
func (n *node) request(name string, attributes map[string]string) state.Record {
	n.Helper()
	target := filepath.Join(n.dir, "pods", "uid-app", "volumes", "kubernetes.io~csi", name, "mount")
	n.must(os.MkdirAll(filepath.Dir(target), 0o750))
	return state.Record{
		VolumeID: "csi-" + name, TargetPath: target, Attributes: attributes,
		Pod: api.Pod{Namespace: "default", Name: "app", UID: "uid-app", ServiceAccount: "default"},
	}
}

// configMap is the attributes of a volume of one ConfigMap, with more of them as key-value pairs.
func configMap(name string, more ...string) map[string]string {
	attributes := map[string]string{api.KeyConfigMap: name}
	for i := 0; i < len(more); i += 2 {
		attributes[more[i]] = more[i+1]
	}
	return attributes
}

// publish publishes, or ends the test. Some time goes by, because Atomic names what it writes by the clock, which stands
// still in a bubble while anything is done.
func (d *driver) publish(r state.Record) {
	d.n.Helper()
	if err := d.Publish(d.n.ctx, r, access.Token{}); err != nil {
		d.n.Fatalf("Publish(%s) = %v, want nil", r.VolumeID, err)
	}
	pass(latency)
}

// publishing publishes in the background.
func (d *driver) publishing(r state.Record) <-chan error {
	done := make(chan error, 1)
	go func() { done <- d.Publish(d.n.ctx, r, access.Token{}) }()
	return done
}

// live sets up a running driver with one volume, whatever its files are.
func (n *node) live(attributes map[string]string, options ...func(*volume.Config)) (*driver, state.Record) {
	n.Helper()
	d := n.start(options...)
	r := n.request("config", attributes)
	d.publish(r)
	return d, r
}

func (d *driver) unpublish(r state.Record) {
	d.n.Helper()
	if err := d.Unpublish(d.n.ctx, r.VolumeID, r.TargetPath); err != nil {
		d.n.Fatalf("Unpublish(%s) = %v, want nil", r.VolumeID, err)
	}
	synctest.Wait()
}

// startFor sets up a running driver, and a request for a volume.
func (n *node) startFor(attributes map[string]string) (*driver, state.Record) {
	n.Helper()
	return n.start(), n.request("config", attributes)
}

// ready sets up a running driver, and a request for a volume of the ConfigMap web, which holds a=1.
func (n *node) ready() (*driver, state.Record) {
	n.Helper()
	n.cluster.set(web, "a", "1")
	return n.startFor(configMap("web"))
}

// published sets up a running driver with one volume of the ConfigMap web, which holds a=1.
func (n *node) published(more ...string) (*driver, state.Record) {
	n.Helper()
	n.cluster.set(web, "a", "1")
	d, r := n.live(configMap("web", more...))
	n.wantFiles(r, map[string]string{"a": "1"})
	n.seen.forget()
	n.faults.forget()
	return d, r
}

// set is [cluster.set], with the time that the driver needs for it. So are remove and fail.
func (n *node) set(ref api.Ref, data ...string) {
	n.cluster.set(ref, data...)
	pass(settling)
}

func (n *node) remove(ref api.Ref) {
	n.cluster.remove(ref)
	pass(settling)
}

func (n *node) fail(ref api.Ref, err error) {
	n.cluster.fail(ref, err)
	pass(settling)
}

// pass lets time go by until everything that is due has been done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestMain gives the tests a separate mount namespace, for those with real mounts.
func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

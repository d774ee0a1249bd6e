package volume_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
	"github.com/liveconfig-csi/liveconfig/pkg/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/volumefs"
)

const (
	publishTimeout = 10 * time.Second
	// resyncInterval is so long that no test passes because of the safety net, but for those about it.
	resyncInterval = 10 * time.Hour
	// latency is how long the cluster takes for a first answer.
	latency = 10 * time.Millisecond
	// settling is longer than any answer or first retry takes.
	settling = time.Second
)

// The objects of most tests.
var (
	web = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "web"}
	tls = api.Ref{Kind: api.Secret, Namespace: "default", Name: "tls"}
)

// node is what a run of the driver finds and leaves: the cluster, the mounts and the records. All of it is real but for
// the cluster, and for mounts being directories.
type node struct {
	*testing.T
	dir     string
	faults  *faults
	mounts  *volumefs.Fake
	records *records
	cluster *cluster
	seen    *reporter
	tokens  tokens
	logs    ktesting.Buffer
	ctx     context.Context // Carries the logger.
}

// bubble runs a test on a node in a synctest bubble, beside other tests. Its end checks that no goroutine is left.
func bubble(t *testing.T, test func(n *node)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newNode(t)) })
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	mounts := filepath.Join(dir, "mounts")
	if err := os.Mkdir(mounts, 0o700); err != nil {
		t.Fatal(err)
	}
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
		T: t, dir: dir, faults: newFaults(), mounts: volumefs.NewFake(mounts), cluster: newCluster(), seen: &reporter{},
		logs: sink.GetBuffer(), ctx: klog.NewContext(t.Context(), logger),
	}
	n.records = &records{Store: store, faults: n.faults}
	n.mounts.Fail = func(op, _ string) error { return n.faults.ask(op) }
	return n
}

// driver is one run of the driver.
type driver struct {
	*volume.Manager
	n   *node
	run func()
	// stop ends the run, as a kill would: nothing is told to the mounts, the records and the cluster.
	stop func()
}

// build makes a manager that has not taken over anything yet and does not run.
func (n *node) build(options ...func(*volume.Config)) *driver {
	n.Helper()
	cfg := volume.Config{
		Sources: n.cluster, Authority: n.authority(), Tokens: &n.tokens, Records: n.records, Mounts: n.mounts, Reporter: n.seen,
		PublishTimeout: publishTimeout, ResyncInterval: resyncInterval,
	}
	for _, option := range options {
		option(&cfg)
	}
	d := &driver{Manager: volume.New(cfg), n: n}
	n.cluster.restart(d.Changed)
	ctx, cancel := context.WithCancel(n.ctx)
	ended := make(chan error, 1)
	running := false
	d.run = func() {
		running = true
		go func() { ended <- d.Run(ctx) }()
	}
	stopped := false
	d.stop = func() {
		if stopped {
			return
		}
		stopped = true
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

// authority has the driver's own credentials read what is in a pod's namespace.
func (n *node) authority() *identity.Authority {
	n.Helper()
	a, err := identity.New(identity.Config{
		Server: &rest.Config{Host: "https://localhost"}, ConfigMaps: identity.ByDriver, Secrets: identity.ByDriver,
	})
	if err != nil {
		n.Fatal(err)
	}
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

// restart kills the driver and starts the next one.
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
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		n.Fatal(err)
	}
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
	if err := d.Publish(d.n.ctx, r, identity.Token{}); err != nil {
		d.n.Fatalf("Publish(%s) = %v, want nil", r.VolumeID, err)
	}
	pass(latency)
}

// unpublish unpublishes, or ends the test.
func (d *driver) unpublish(r state.Record) {
	d.n.Helper()
	if err := d.Unpublish(d.n.ctx, r.VolumeID, r.TargetPath); err != nil {
		d.n.Fatalf("Unpublish(%s) = %v, want nil", r.VolumeID, err)
	}
	synctest.Wait()
}

// published sets up a running driver with one volume of the ConfigMap web, which holds a=1.
func (n *node) published(more ...string) (*driver, state.Record) {
	n.Helper()
	n.cluster.set(web, "a", "1")
	d := n.start()
	r := n.request("config", configMap("web", more...))
	d.publish(r)
	n.wantFiles(r, map[string]string{"a": "1"})
	n.seen.forget()
	n.faults.forget()
	return d, r
}

// pass lets time go by until everything that is due has been done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantFiles checks what a container sees; nil means no mount at all.
func (n *node) wantFiles(r state.Record, want map[string]string) {
	n.Helper()
	got := n.files(r.TargetPath)
	if diff := cmp.Diff(want, got); diff != "" {
		n.Errorf("files of %s (-want +got):\n%s", r.VolumeID, diff)
	}
}

// files returns the contents of all visible files by path, following the links; nil when there is no directory.
func (n *node) files(dir string) map[string]string {
	n.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		n.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") {
			maps.Copy(files, n.below(dir, e.Name()))
		}
	}
	return files
}

func (n *node) below(dir, name string) map[string]string {
	n.Helper()
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		n.Fatalf("a listed name cannot be opened: %v", err)
	}
	files := map[string]string{}
	if info.IsDir() {
		for below, data := range n.files(path) {
			files[name+"/"+below] = data
		}
		return files
	}
	data, err := os.ReadFile(path)
	if err != nil {
		n.Fatalf("a listed name cannot be read: %v", err)
	}
	files[name] = string(data)
	return files
}

// wantNothing checks that no trace of any volume is left: in memory, among the sources, on disk.
func (n *node) wantNothing(d *driver) {
	n.Helper()
	if got := d.Volumes(); got != 0 {
		n.Errorf("Volumes() = %d, want 0", got)
	}
	if got := d.UsedSources(); got != 0 {
		n.Errorf("the manager holds users of %d sources, want 0", got)
	}
	if got := n.cluster.users(); len(got) != 0 {
		n.Errorf("users of sources = %v, want none", got)
	}
	n.wantRecords()
	for _, pattern := range []string{"mounts/*", "pods/*/volumes/*/*/*"} {
		left, err := filepath.Glob(filepath.Join(n.dir, pattern))
		if err != nil {
			n.Fatal(err)
		}
		if len(left) != 0 {
			n.Errorf("left on disk: %v, want nothing", left)
		}
	}
}

// wantRecords checks which volumes are on record.
func (n *node) wantRecords(want ...state.Record) {
	n.Helper()
	got, err := n.records.List()
	if err != nil {
		n.Errorf("List() = %v, want nil", err)
	}
	byID := func(rs []state.Record) map[string]state.Record {
		m := map[string]state.Record{}
		for _, r := range rs {
			m[r.VolumeID] = r
		}
		return m
	}
	if diff := cmp.Diff(byID(want), byID(got)); diff != "" {
		n.Errorf("records (-want +got):\n%s", diff)
	}
}

// wantKind checks that err is an Error of the kind, and returns its text.
func (n *node) wantKind(err error, want volume.Kind) string {
	n.Helper()
	var e *volume.Error
	if !errors.As(err, &e) {
		n.Fatalf("got error %v, want one of kind %s", err, want)
	}
	if e.Kind != want {
		n.Errorf("got kind %s (%v), want %s", e.Kind, err, want)
	}
	return e.Error()
}

// wantProblem checks what is said to be wrong with a live volume; empty for nothing.
func (n *node) wantProblem(d *driver, r state.Record, want string) {
	n.Helper()
	problem, err := d.Condition(r.VolumeID, r.TargetPath)
	if err != nil {
		n.Fatalf("Condition(%s) = %v, want no error", r.VolumeID, err)
	}
	got := ""
	if problem != nil {
		got = problem.Error()
	}
	if got != want {
		n.Errorf("Condition(%s) = %q, want %q", r.VolumeID, got, want)
	}
}

// keyOf is the source key of an object that the driver's own identity reads.
func keyOf(ref api.Ref) source.Key { return source.Key{Identity: identity.Driver(), Ref: ref} }

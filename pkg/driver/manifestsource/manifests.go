// Package manifestsource serves ConfigMaps and Secrets from the manifests of a directory, in place
// of an API server: for trying the driver out, for tests, and for machines without a cluster.
//
// It does not know volumes, files in pods, or more of a pod than its namespace.
package manifestsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
)

// Config is what a directory needs. Every field is required.
type Config struct {
	// Dir is the directory. Files that end with .yaml, .yml or .json are read; directories in it
	// are not.
	Dir string
	// Changed is called after the snapshot of a key has changed, without any lock held. It must not
	// block.
	Changed func(source.Key)
	// Room is where the memory for the objects in use comes from.
	Room source.Room
}

// Directory is the sources of a directory. It is safe for concurrent use.
type Directory struct {
	cfg      Config
	watcher  *fileset.Watcher // Run's.
	versions versions
	again    chan struct{} // Has an element when the items are to be looked at again.

	mu    sync.Mutex // Guards the fields below; never held while reading or calling out.
	now   catalog
	items map[api.Ref]*item
	// isBehind means that the directory could not be read or watched, or that a file was left out
	// because it is being written.
	isBehind bool
}

// item is one object in use. Invariant: it is in Directory.items exactly while users > 0.
type item struct {
	users   int
	now     source.Snapshot
	account *budget.Account // The room that the item takes; fixed.
}

// New returns the sources of a directory that exists. Nothing is known of them before
// [Directory.Run].
func New(cfg Config) (*Directory, error) {
	abs, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	cfg.Dir = abs
	info, err := os.Stat(cfg.Dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the manifests: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("read the manifests: %s is not a directory", cfg.Dir)
	}
	return &Directory{cfg: cfg, versions: newVersions(), again: make(chan struct{}, 1), items: map[api.Ref]*item{}}, nil
}

func newWatcher(logger klog.Logger, dir string) *fileset.Watcher {
	logger = logger.WithValues(logkeys.Directory, dir)
	return fileset.NewWatcher(fileset.Config{Moment: fileset.WhenClosed, Polling: func(reason error) {
		if reason == nil {
			logger.Info("The kernel reports changes of the manifests again")
			return
		}
		logger.Error(reason, "The driver polls the manifests, because the kernel cannot report their changes",
			logkeys.Delay, fileset.PollInterval)
	}})
}

// Run reads and follows the directory until ctx ends. It must be called once. Manifests with
// mistakes are no error: see [Directory.Problems].
func (d *Directory) Run(ctx context.Context) error {
	d.watcher = newWatcher(klog.FromContext(ctx), d.cfg.Dir)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { d.watcher.Run(ctx); return nil })
	g.Go(func() error { return d.follow(ctx) })
	return g.Wait()
}

func (d *Directory) follow(ctx context.Context) error {
	d.tryLoad(ctx)
	for {
		timer, stop := d.timer()
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-d.again:
			d.refresh()
		case <-d.watcher.Changes():
			d.tryLoad(ctx)
		case <-timer:
			d.tryLoad(ctx)
		}
		stop()
	}
}

// retryTime is how long until the directory is read without a change, after it could not be read or
// while a file is being written.
const retryTime = time.Second

// leastTime is how long the directory is left alone, whatever is due.
const leastTime = 20 * time.Millisecond

// timer fires when the directory is to be read without a change.
func (d *Directory) timer() (fires <-chan time.Time, stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.now.lookAgain()
	if retry := time.Now().Add(retryTime); d.isBehind && (at.IsZero() || retry.Before(at)) {
		at = retry
	}
	if at.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(max(time.Until(at), leastTime))
	return timer.C, func() { timer.Stop() }
}

func (d *Directory) tryLoad(ctx context.Context) {
	if err := d.load(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "The driver cannot read the manifests", logkeys.Directory, d.cfg.Dir)
	}
}

// load reads the directory and watches what it has read.
func (d *Directory) load(ctx context.Context) error {
	set, err := fileset.ReadDir(ctx, d.cfg.Dir, isManifest)
	d.watcher.Watch(set)
	d.mu.Lock()
	d.isBehind = err != nil
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("read the manifests of %s: %w", d.cfg.Dir, err)
	}
	beingWritten := d.beingWritten(set.Contents[0])
	before := d.known()
	after := before.next(set.Contents[0], beingWritten, d.versions, time.Now()) // Large texts take a while.
	d.mu.Lock()
	d.isBehind, d.now = len(beingWritten) > 0, after
	d.mu.Unlock()
	d.log(klog.FromContext(ctx), before.problems, after.problems)
	d.refresh()
	return nil
}

// beingWritten returns the names of the files that another process has open for writing.
func (d *Directory) beingWritten(read environ.Content) map[string]bool {
	names := map[string]bool{}
	for _, f := range read.Files {
		if d.watcher.Writing(filepath.Join(d.cfg.Dir, f.Name)) {
			names[f.Name] = true
		}
	}
	return names
}

// log reports new problems, and the end of the last one.
func (d *Directory) log(logger klog.Logger, before, after []*Problem) {
	if sameProblems(before, after) {
		return
	}
	logger = logger.WithValues(logkeys.Directory, d.cfg.Dir)
	for _, p := range after {
		if !contains(before, p) {
			logger.Error(p, "The driver cannot serve a manifest; the objects that it defined before stay as they are")
		}
	}
	if len(after) == 0 {
		logger.Info("All manifests are served again")
	}
}

func contains(all []*Problem, p *Problem) bool {
	for _, other := range all {
		if *other == *p {
			return true
		}
	}
	return false
}

// known returns what the directory defines. Only load changes that.
func (d *Directory) known() catalog {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// Problems returns what is wrong with the manifests, in the order of their places.
func (d *Directory) Problems() []*Problem { return d.known().problems }

// Objects returns how many objects the manifests define.
func (d *Directory) Objects() int { return len(d.known().objects) }

// ErrForeign is why a source in another namespace is refused.
var ErrForeign = errors.New("with --manifests a pod reads the objects of its own namespace only: " +
	"no API server can check whether the owner of the other namespace allows it")

// ErrSelection is why a source that selects objects by label is refused.
var ErrSelection = errors.New("with --manifests a source has to name its object: labelSelector needs an API server, " +
	"so write an entry with the name of each object")

// Acquire counts one more user of the object. The returned function takes the user back and may be
// called more than once. A source in another namespace than the pod's, and one that selects objects
// by label, is refused with a *[source.RefusedError].
func (d *Directory) Acquire(key source.Key) (giveBack func(), err error) {
	if key.IsSelection() {
		return nil, &source.RefusedError{Key: key, Err: ErrSelection}
	}
	if key.Identity != identity.Driver() {
		return nil, &source.RefusedError{Key: key, Err: ErrForeign}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	it, found := d.items[key.Ref]
	if !found {
		it = &item{account: d.cfg.Room.Account()}
		d.items[key.Ref] = it
		d.refreshLocked(key.Ref, it)
	}
	it.users++
	return sync.OnceFunc(func() { d.giveBack(key.Ref) }), nil
}

func (d *Directory) giveBack(ref api.Ref) {
	d.mu.Lock()
	it := d.items[ref]
	it.users--
	isLast := it.users == 0
	if isLast {
		delete(d.items, ref)
	}
	d.mu.Unlock()
	if isLast {
		it.account.Close() // It may call others.
	}
}

// Look returns what is known at one moment of acquired objects, and the zero Snapshot for others.
func (d *Directory) Look(keys ...source.Key) []source.Snapshot {
	known := make([]source.Snapshot, len(keys))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, key := range keys {
		if it, found := d.items[key.Ref]; found && key.Identity == identity.Driver() {
			known[i] = it.now
		}
	}
	return known
}

// refresh brings the snapshots of all objects in use to what is known now, and reports those that
// have changed.
func (d *Directory) refresh() {
	var changed []source.Key
	d.mu.Lock()
	for ref, it := range d.items {
		if d.refreshLocked(ref, it) {
			changed = append(changed, source.Key{Ref: ref, Identity: identity.Driver()})
		}
	}
	d.mu.Unlock()
	for _, key := range changed {
		d.cfg.Changed(key)
	}
}

// refreshLocked brings one snapshot to what is known now, and reports whether it has changed.
func (d *Directory) refreshLocked(ref api.Ref, it *item) (changed bool) {
	before := it.now
	k, synced := d.now.get(ref)
	next := source.Snapshot{Synced: synced, Found: synced && k.isFound(), Changed: before.Changed, Failing: before.Failing}
	if k.problem != nil {
		next.Err = k.problem
	}
	if next.Found {
		next.Content = k.content
	}
	if err := d.admit(it, next.Content); err != nil {
		next = before
		next.Err = err
	}
	isOther := next.Synced != before.Synced || next.Found != before.Found ||
		next.Content.UID != before.Content.UID || next.Content.ResourceVersion != before.Content.ResourceVersion
	if isOther {
		next.Changed = time.Now()
	}
	switch {
	case next.Err == nil:
		next.Failing = time.Time{}
	case next.Failing.IsZero():
		next.Failing = time.Now()
	}
	it.now = next
	return isOther || (next.Err == nil) != (before.Err == nil) || next.Err != nil && next.Err.Error() != before.Err.Error()
}

// admit takes the room that the content needs, in place of what the one before had. If there is not
// enough, the content must not be taken, and is looked at again when there may be.
func (d *Directory) admit(it *item, c api.Content) error {
	cost := source.CostOf(c)
	take, when := it.account.Resize, it.account.WhenRoom
	if it.users == 0 {
		take, when = it.account.Open, it.account.WhenOpen
	}
	err := take(cost)
	if err != nil {
		when(cost, func() {
			select {
			case d.again <- struct{}{}:
			default:
			}
		})
	}
	return err
}

// Choose returns whose credentials read ref for the pod: none are needed for the pod's own
// namespace, and none are enough for another one.
func (*Directory) Choose(pod api.Pod, ref api.Ref) identity.Identity {
	if ref.Namespace == pod.Namespace {
		return identity.Driver()
	}
	return identity.Of(pod)
}

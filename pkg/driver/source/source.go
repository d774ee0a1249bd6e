// Package source turns a reference to a ConfigMap or Secret, or to those with some labels, into
// live content. All users of an object or a selection with the same identity share one watch, which
// ends with the last user.
//
// It does not know volumes, files, or how the content is used.
package source

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// Key names an object, or a selection of objects, and the credentials that read it. It is
// comparable.
type Key struct {
	Identity identity.Identity
	// Ref has no name if the key names a selection, and then perhaps no namespace, which means all.
	Ref api.Ref
	// Selector is that of an [api.Selection].
	Selector string
}

// IsSelection reports whether the key names a selection of objects.
func (k Key) IsSelection() bool { return k.Ref.Name == "" }

// String returns the ref, or the selection, and the identity.
func (k Key) String() string {
	if k.Selector != "" {
		return k.Ref.String() + " with " + k.Selector + " as " + k.Identity.String()
	}
	return k.Ref.String() + " as " + k.Identity.String()
}

// Snapshot is what is known about one object, or one selection, at one moment.
type Snapshot struct {
	// Synced reports whether the API server has answered since the object was first acquired.
	// Until then nothing is known: not synced never means not found.
	Synced bool
	// Found reports whether the object exists, or whether the selection has members; Content is set
	// only then. That of a selection has no data, and another version for other members.
	Found   bool
	Content api.Content
	// Members are the objects of a selection, older ones first. The slice must not be modified.
	Members []Member
	// Release is what the object's annotations and labels mean for releases; nil for an object that
	// releases do not concern.
	Release *release.Marks
	// Changed is when the content, or the absence of the object, became known.
	Changed time.Time
	// Err is why the object is not kept current: the error of the latest request that failed, or
	// no room. It is nil while a watch is open, while the object is polled, and after it was read
	// and is immutable; a pod's watch that is refused later is an error again. The content stays,
	// and may be newer than the error if lists are served and watches are not.
	Err error
	// Failing is since when there has been an Err, the same or others; zero for none.
	Failing time.Time
	// Revoked means that denials of the pod count: see [access.Denials].
	Revoked bool
	// Polled means that the object is read again and again: for a while its reader has been
	// allowed to get it, but not to list and watch it. It stays while there is an Err.
	Polled bool
}

// isFinished reports whether no later version of the object matters: its data never changes. The
// annotations of a released object and of its stable copy do, and they decide what pods get.
func (s *Snapshot) isFinished() bool {
	return s.Synced && s.Found && s.Content.Immutable && s.Release == nil
}

// AbsenceTime is how long an object must be gone to count as deleted. `kubectl replace --force`,
// and editors of manifests, delete an object and create it again at once, which is one change. A
// snapshot does not wait for that: see [Snapshot.Changed].
const AbsenceTime = 2 * time.Second

// noteFailing adapts Failing to Err.
func (s *Snapshot) noteFailing() {
	switch {
	case s.Err == nil:
		s.Failing = time.Time{}
	case s.Failing.IsZero():
		s.Failing = time.Now()
	}
}

// RefusedError is why sources do not serve an object to a reader at all, whatever its state.
type RefusedError struct {
	Key Key
	Err error
}

// Error names the object and the reason.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %v", e.Key.Ref, e.Err) }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// Config is what a cache needs. Every field is required.
type Config struct {
	// Client returns a client of the core group with the credentials of an identity.
	Client func(identity.Identity) (rest.Interface, error)
	// Types are those of the clients.
	Types *kubeclient.Types
	// Allow is [access.Authority.Allow]. It is called before each request.
	Allow func(context.Context, identity.Identity, api.Ref) error
	// Denies is [access.Authority.Denies]. It is called before denials count.
	Denies func(context.Context, identity.Identity, api.Ref) (bool, error)
	// Changed is called after the snapshot of a key has changed, without any lock held. It must
	// not block.
	Changed func(Key)
	// Recheck is how often, about, the API server decides again whether a pod may read: an open
	// watch does not notice lost access. Denials count after the same time. Polled objects are
	// read as often, but at least about twice a minute. It must be at least two seconds.
	Recheck time.Duration
	// Room is the memory for the objects. Content without room is not stored: the last content
	// stays, Err is a *[budget.ExhaustedError], and the object is read again when there may be
	// room.
	Room Room
}

// Cache stores the objects that are in use and nothing else.
type Cache struct {
	cfg    Config
	kinds  map[api.Kind]*objectwatch.Kind
	group  *objectwatch.Group
	logger klog.Logger // Of Run's context.

	mu        sync.Mutex // Guards the fields below and the items; never held while waiting or calling out.
	items     map[Key]*item
	isRunning bool // Run was called: objects acquired from then on are new to the node.
}

// item is one object in use. Invariant: it is in Cache.items exactly while users > 0.
type item struct {
	users  int
	reader *reader // Nil while none runs because the object is immutable.
	now    Snapshot
	// isNew means that the object has not been read yet, and that no live volume needs it.
	isNew bool
	// isAwaited means that the object has not been read yet, and that a new volume waits for it.
	// It is read without the lock.
	isAwaited atomic.Bool
	// account is the part of the room that the item uses; fixed.
	account *budget.Account
}

// New returns an empty cache, which reads nothing before [Cache.Run].
func New(cfg Config) *Cache {
	return &Cache{cfg: cfg, kinds: kinds(), group: objectwatch.New(cfg.Types), items: map[Key]*item{}}
}

// Run reads and watches what is acquired, before and after, until ctx ends. It returns nil when
// every watch has ended, and must be called once. Live volumes use what was acquired before it;
// other objects are new when they are first read, and leave a share of the room to live volumes
// (see [budget.Account.Open]).
func (c *Cache) Run(ctx context.Context) error {
	c.mu.Lock()
	c.logger, c.isRunning = klog.FromContext(ctx), true
	c.mu.Unlock()
	return c.group.Run(ctx)
}

// Replaced returns how many watches were found dead and replaced so far.
func (c *Cache) Replaced() int { return c.group.Replaced() }

// Silence returns the longest time for which the API server has delivered nothing about an object,
// whether a watch of it is open or not; zero when no object is followed.
func (c *Cache) Silence() time.Duration { return c.group.Silence() }

// Acquire counts one more user of the object; the first one starts its watch, which begins when the
// cache runs. The returned function ends the use, and may be called more than once. Acquire does
// not wait for the object: see [Cache.Look] and [Config.Changed].
func (c *Cache) Acquire(key Key) (giveBack func(), err error) {
	client, err := c.cfg.Client(key.Identity)
	if err != nil {
		return nil, fmt.Errorf("acquire %s: %w", key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	it, found := c.items[key]
	if !found {
		it = &item{account: c.cfg.Room.Account(), isNew: c.isRunning}
		it.account.Force(BytesOf(key)) // Also if the object does not exist.
		c.items[key] = it
	}
	it.users++
	if it.reader == nil {
		// Either there is no watch yet, or the object was immutable. Such an object may have been
		// created again since, so it is read again for a new user.
		it.now.Synced = false
		c.startLocked(key, it, client)
	}
	if c.isRunning && !it.now.Synced {
		it.isAwaited.Store(true)
	}
	return sync.OnceFunc(func() { c.giveBack(key) }), nil
}

func (c *Cache) giveBack(key Key) {
	if a := c.drop(key); a != nil {
		a.Close() // Without the lock, because it calls back.
	}
}

// drop ends one use, and returns the account of an object without users.
func (c *Cache) drop(key Key) *budget.Account {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.items[key]
	it.users--
	if it.users > 0 {
		return nil
	}
	delete(c.items, key)
	it.stopLocked()
	return it.account
}

// Look returns what is known at one moment about acquired objects, and the zero Snapshot for
// others.
func (c *Cache) Look(keys ...Key) []Snapshot {
	known := make([]Snapshot, len(keys))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys {
		if it, found := c.items[key]; found {
			known[i] = it.now
		}
	}
	return known
}

// Watches returns how many objects are being watched.
func (c *Cache) Watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, it := range c.items {
		if it.reader != nil {
			n++
		}
	}
	return n
}

// Polled returns how many objects are polled because they may not be watched.
func (c *Cache) Polled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, it := range c.items {
		if it.now.Polled {
			n++
		}
	}
	return n
}

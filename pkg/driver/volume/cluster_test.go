package volume_test

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// errSilent makes the cluster give no answer about an object.
var errSilent = errors.New("no answer")

// cluster plays the sources: objects, and who uses them. Like the real ones it knows nothing of an object at first,
// brings its state a little later, and then each change.
type cluster struct {
	mu      sync.Mutex // Guards the fields below; never held during a call of changed.
	version int
	objects map[api.Ref]api.Content
	marks   map[api.Ref]*release.Marks // Of objects that releases concern.
	errs    map[api.Ref]error
	denied  map[source.Key]error      // For one reader.
	refused map[api.Ref]bool          // Acquire fails.
	polled  map[api.Ref]bool          // It may be got, but not watched.
	doubted map[api.Ref]bool          // A refusal of it is too young to be believed.
	members map[api.Ref]source.Member // The objects that have the labels of all selections, without content.
	watched map[source.Key]*watched
	changed func(source.Key)
}

// watched is one object that has users.
type watched struct {
	users    int
	answered bool
	now      source.Snapshot
}

func newCluster() *cluster {
	return &cluster{
		objects: map[api.Ref]api.Content{}, marks: map[api.Ref]*release.Marks{}, errs: map[api.Ref]error{}, denied: map[source.Key]error{},
		members: map[api.Ref]source.Member{}, refused: map[api.Ref]bool{}, polled: map[api.Ref]bool{}, doubted: map[api.Ref]bool{},
	}
}

func (c *cluster) restart(changed func(source.Key)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched, c.changed = map[source.Key]*watched{}, changed
}

func (c *cluster) Acquire(key source.Key) (giveBack func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused[key.Ref] {
		return nil, os.ErrPermission
	}
	w, found := c.watched[key]
	if !found {
		w = &watched{}
		c.watched[key] = w
		time.AfterFunc(latency, func() { c.answer(key, w) })
	}
	w.users++
	all := c.watched
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.users--; w.users == 0 {
			delete(all, key)
		}
	}), nil
}

func (c *cluster) answer(key source.Key, w *watched) {
	c.mu.Lock()
	current := c.watched[key] == w && !errors.Is(c.errs[key.Ref], errSilent)
	if current {
		w.answered = true
		c.bringLocked(key, w)
	}
	changed := c.changed
	c.mu.Unlock()
	if current {
		changed(key)
	}
}

// bringLocked updates what is known of an object. c.mu is held.
func (c *cluster) bringLocked(key source.Key, w *watched) {
	if err := cmp.Or(c.errs[key.Ref], c.denied[key]); err != nil {
		// What the driver may not read on its own behalf was taken from nobody.
		w.now.Err, w.now.Revoked = err, apierrors.IsForbidden(err) && !c.doubted[key.Ref] && key.Identity != identity.Driver()
		return
	}
	if key.IsSelection() {
		members := c.membersLocked(key.Ref)
		contents := make([]api.Content, len(members))
		for i, m := range members {
			contents[i] = m.Content
		}
		w.now = source.Snapshot{
			Synced: true, Found: len(members) > 0, Members: members, Changed: time.Now(),
			Content: api.Content{Ref: key.Ref, ResourceVersion: api.VersionOfAll(contents)},
		}
		return
	}
	content, found := c.objects[key.Ref]
	changed := time.Now()
	if isStillGone := w.now.Synced && !w.now.Found && !found; isStillGone {
		changed = w.now.Changed
	}
	w.now = source.Snapshot{Synced: true, Found: found, Content: content, Release: c.marks[key.Ref], Changed: changed, Polled: c.polled[key.Ref]}
}

func (c *cluster) Look(keys ...source.Key) []source.Snapshot {
	known := make([]source.Snapshot, len(keys))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys {
		if w, found := c.watched[key]; found {
			known[i] = w.now
		}
	}
	return known
}

// slip changes an object without a notice.
func (c *cluster) slip(ref api.Ref, data ...string) {
	changed := c.notify(func(source.Key) {})
	c.set(ref, data...)
	c.notify(changed)
}

// notify changes who is notified of changes, and returns who was before.
func (c *cluster) notify(changed func(source.Key)) (before func(source.Key)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.changed = c.changed, changed
	return before
}

// reread makes what is known of an object unknown until it has been read again, as a new user to an immutable object does.
func (c *cluster) reread(ref api.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, w := range c.watched {
		if key.Ref == ref {
			w.now.Synced = false
			time.AfterFunc(latency, func() { c.answer(key, w) })
		}
	}
}

// set makes or changes an object; its data are key-value pairs.
func (c *cluster) set(ref api.Ref, data ...string) {
	c.change(ref, func() {
		content := api.Content{Ref: ref, UID: "uid-" + ref.Name, Data: map[string][]byte{}}
		for i := 0; i < len(data); i += 2 {
			content.Data[data[i]] = []byte(data[i+1])
		}
		content.ResourceVersion = strconv.Itoa(c.version)
		c.objects[ref] = content
		delete(c.marks, ref)
	})
}

// remove deletes an object.
func (c *cluster) remove(ref api.Ref) {
	c.change(ref, func() { delete(c.objects, ref); delete(c.marks, ref) })
}

// fail makes requests for an object fail; nil lets them succeed again.
func (c *cluster) fail(ref api.Ref, err error) { c.change(ref, func() { c.errs[ref] = err }) }

// failFor makes an object fail for one of its readers.
func (c *cluster) failFor(reader identity.Identity, ref api.Ref, err error) {
	c.change(ref, func() { c.denied[source.Key{Identity: reader, Ref: ref}] = err })
}

// doubt makes denials of an object too young to be believed, until they have grown old enough by believe.
func (c *cluster) doubt(ref api.Ref) { c.change(ref, func() { c.doubted[ref] = true }) }

func (c *cluster) believe(ref api.Ref) { c.change(ref, func() { delete(c.doubted, ref) }) }

// poll takes the right to watch an object away; watch gives it back.
func (c *cluster) poll(ref api.Ref) { c.change(ref, func() { c.polled[ref] = true }) }

func (c *cluster) watch(ref api.Ref) { c.change(ref, func() { delete(c.polled, ref) }) }

func (c *cluster) change(ref api.Ref, change func()) {
	c.mu.Lock()
	c.version++
	change()
	var tell []source.Key
	for key, w := range c.watched {
		if (key.Ref == ref || key.IsSelection() && isIn(key.Ref, ref)) && w.answered {
			c.bringLocked(key, w)
			tell = append(tell, key)
		}
	}
	changed := c.changed
	c.mu.Unlock()
	for _, key := range tell {
		changed(key)
	}
}

func (c *cluster) users() map[api.Ref]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	users := map[api.Ref]int{}
	for key, w := range c.watched {
		users[key.Ref] += w.users
	}
	return users
}

func (c *cluster) keys() map[source.Key]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := map[source.Key]bool{}
	for key := range c.watched {
		keys[key] = true
	}
	return keys
}

package volume_test

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
	"github.com/liveconfig-csi/liveconfig/pkg/volume"
)

// faults stands in the way of side effects. An operation is «create», «open», «publish», «mounted» or «unmount» of a
// mount, «put», «delete» or «list» of records.
type faults struct {
	mu    sync.Mutex // Guards the fields below.
	error map[string]error
	hooks map[string]func()
	done  []string
}

func newFaults() *faults { return &faults{error: map[string]error{}, hooks: map[string]func(){}} }

// ask is called before each operation.
func (f *faults) ask(op string) error {
	f.mu.Lock()
	f.done = append(f.done, op)
	err, hook := f.error[op], f.hooks[op]
	f.mu.Unlock()
	if hook != nil {
		hook()
	}
	return err
}

// set makes an operation fail from now on; nil mends it.
func (f *faults) set(op string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.error[op] = err
}

// on has something done before each run of an operation; nil ends it.
func (f *faults) on(op string, hook func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[op] = hook
}

// forget empties the list of what was done.
func (f *faults) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = nil
}

// count returns how often an operation was tried.
func (f *faults) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(f.done), func(done string) bool { return done != op }))
}

// order returns what was done, in order.
func (f *faults) order() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

// records are a store's, with faults.
type records struct {
	*state.Store
	faults *faults
}

func (r *records) Put(record state.Record) error {
	if err := r.faults.ask("put"); err != nil {
		return err
	}
	return r.Store.Put(record)
}

func (r *records) Delete(volumeID string) error {
	if err := r.faults.ask("delete"); err != nil {
		return err
	}
	return r.Store.Delete(volumeID)
}

// tokens remembers for which volumes tokens are held.
type tokens struct {
	mu   sync.Mutex // Guards held.
	held map[string]identity.Token
}

func (t *tokens) Keep(volumeID string, _ api.Pod, token identity.Token) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !token.IsZero() {
		if t.held == nil {
			t.held = map[string]identity.Token{}
		}
		t.held[volumeID] = token
	}
	return nil
}

func (t *tokens) Drop(volumeID string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, volumeID)
	return nil
}

func (t *tokens) Retain(known func(volumeID string) bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.held {
		if !known(id) {
			delete(t.held, id)
		}
	}
	return nil
}

// of returns the token that is held for a volume.
func (t *tokens) of(volumeID string) identity.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[volumeID]
}

// cluster plays the sources: objects, and who uses them. Like the real ones it knows nothing of an object at first,
// brings its state a little later, and then each change.
type cluster struct {
	mu      sync.Mutex // Guards the fields below; never held during a call of changed.
	version int
	objects map[api.Ref]api.Content
	errs    map[api.Ref]error
	silent  map[api.Ref]bool // No answer comes.
	refused map[api.Ref]bool // Acquire fails.
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
		objects: map[api.Ref]api.Content{}, errs: map[api.Ref]error{},
		silent: map[api.Ref]bool{}, refused: map[api.Ref]bool{},
	}
}

// restart forgets all users, and serves a new one.
func (c *cluster) restart(changed func(source.Key)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched, c.changed = map[source.Key]*watched{}, changed
}

func (c *cluster) Acquire(key source.Key) (release func(), err error) {
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
	current := c.watched[key] == w && !c.silent[key.Ref]
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
	if err := c.errs[key.Ref]; err != nil {
		w.now.Err = err
		return
	}
	content, found := c.objects[key.Ref]
	w.now = source.Snapshot{Synced: true, Found: found, Content: content, Changed: time.Now()}
}

func (c *cluster) Get(key source.Key) source.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, found := c.watched[key]; found {
		return w.now
	}
	return source.Snapshot{}
}

// slip changes an object and tells nobody.
func (c *cluster) slip(ref api.Ref, data ...string) {
	changed := c.tell(func(source.Key) {})
	c.set(ref, data...)
	c.tell(changed)
}

// tell changes who is told of changes, and returns who was before.
func (c *cluster) tell(changed func(source.Key)) (before func(source.Key)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.changed = c.changed, changed
	return before
}

// reread makes what is known of an object unknown until it has been read anew, as a newcomer to an immutable object does.
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
	})
}

// remove deletes an object.
func (c *cluster) remove(ref api.Ref) { c.change(ref, func() { delete(c.objects, ref) }) }

// fail makes requests for an object fail; nil lets them succeed again.
func (c *cluster) fail(ref api.Ref, err error) { c.change(ref, func() { c.errs[ref] = err }) }

func (c *cluster) change(ref api.Ref, change func()) {
	c.mu.Lock()
	c.version++
	change()
	var tell []source.Key
	for key, w := range c.watched {
		if key.Ref == ref && w.answered {
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

// users returns how many users each object has.
func (c *cluster) users() map[api.Ref]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	users := map[api.Ref]int{}
	for key, w := range c.watched {
		users[key.Ref] += w.users
	}
	return users
}

// event is one Event on a pod.
type event struct {
	Pod, Volume string
	Reason      volume.Reason
	Note        string
}

// outcome is one finished sync.
type outcome struct {
	result volume.Result
	since  time.Time
}

// reporter remembers what it is told.
type reporter struct {
	mu     sync.Mutex // Guards the fields below.
	events []event
	syncs  []outcome
}

func (r *reporter) Event(pod api.Pod, name string, reason volume.Reason, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event{Pod: pod.String(), Volume: name, Reason: reason, Note: note})
}

func (r *reporter) Synced(result volume.Result, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.syncs = append(r.syncs, outcome{result: result, since: since})
}

// forget empties the memory.
func (r *reporter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.syncs = nil, nil
}

// told returns the reason and note of every Event.
func (r *reporter) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var told []string
	for _, e := range r.events {
		told = append(told, string(e.Reason)+": "+e.Note)
	}
	return told
}

// results counts syncs by how they ended.
func (r *reporter) results() map[volume.Result]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	results := map[volume.Result]int{}
	for _, s := range r.syncs {
		results[s.result]++
	}
	return results
}

// outcomes returns every finished sync.
func (r *reporter) outcomes() []outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.syncs)
}

// all returns every Event.
func (r *reporter) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

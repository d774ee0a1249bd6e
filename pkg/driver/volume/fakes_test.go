package volume_test

import (
	"slices"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
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
	if op != "usage" { // Which changes nothing, and is looked up at all times.
		f.done = append(f.done, op)
	}
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

// mend ends all faults.
func (f *faults) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.error)
	clear(f.hooks)
}

// hang makes an operation wait until release is called. It mends the operation.
func (f *faults) hang(op string) (resume func()) {
	gate := make(chan struct{})
	f.on(op, func() { <-gate })
	return sync.OnceFunc(func() {
		f.on(op, nil)
		close(gate)
	})
}

// on has something done before each run of an operation; nil ends it.
func (f *faults) on(op string, hook func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[op] = hook
}

func (f *faults) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = nil
}

func (f *faults) count(op string) int {
	return len(slices.DeleteFunc(f.order(), func(done string) bool { return done != op }))
}

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

func (r *records) all() (all []state.Record, err error) {
	err = r.Each(func(record state.Record) { all = append(all, record) })
	return all, err
}

// tokens remembers for which volumes tokens are held.
type tokens struct {
	mu    sync.Mutex // Guards the fields below.
	held  map[string]access.Token
	count map[string]int // How many tokens were ever held.
}

func (t *tokens) Store(volumeID string, _ api.Pod, token access.Token) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !token.IsZero() {
		if t.held == nil {
			t.held, t.count = map[string]access.Token{}, map[string]int{}
		}
		t.held[volumeID] = token
		t.count[volumeID]++
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

func (t *tokens) of(volumeID string) access.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[volumeID]
}

func (t *tokens) kept(volumeID string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count[volumeID]
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

// reporter remembers what it gets.
type reporter struct {
	mu     sync.Mutex // Guards the fields below.
	events []event
	syncs  []outcome
	ages   []time.Duration // Of changes, when they were in the files.
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

func (r *reporter) Reached(changed time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ages = append(r.ages, time.Since(changed))
}

func (r *reporter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.syncs, r.ages = nil, nil, nil
}

func (r *reporter) told() []string {
	var told []string
	for _, e := range r.all() {
		told = append(told, string(e.Reason)+": "+e.Note)
	}
	return told
}

func (r *reporter) results() map[volume.Result]int {
	results := map[volume.Result]int{}
	for _, s := range r.outcomes() {
		results[s.result]++
	}
	return results
}

func (r *reporter) outcomes() []outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.syncs)
}

func (r *reporter) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

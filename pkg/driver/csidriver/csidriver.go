// Package csidriver watches the CSIDriver object under which the driver is installed and says whether what the kubelet
// tells about pods can be believed: only with podInfoOnMount does the kubelet write the keys about the pod into a
// volume's context, over what the pod's author may have written there.
//
// It does not know requests, volumes or pods.
package csidriver

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
)

// Watcher knows what is wrong with one CSIDriver object. What it has once known it goes on to know while the API server
// is away.
type Watcher struct {
	client   rest.Interface // Of storage.k8s.io/v1.
	types    *kubeclient.Types
	name     string
	answered chan struct{} // Closed once the API server has told the state of the object, or refused to.
	answer   func()        // Closes answered; may be called more than once.
	ended    chan struct{} // Closed when Run ends.

	mu  sync.Mutex // Guards now; never held while waiting or calling out.
	now finding
}

// finding is what is known at one moment.
type finding struct {
	kind Kind  // What is wrong; empty for nothing.
	err  error // Why the object cannot be kept current; nil once a watch is open. Fit to be shown.
}

// New returns a watcher of the CSIDriver object with the name, of which nothing is known until [Watcher.Run]. The client is
// one of storage.k8s.io/v1.
func New(client rest.Interface, types *kubeclient.Types, name string) *Watcher {
	answered := make(chan struct{})
	return &Watcher{
		client: client, types: types, name: name,
		answered: answered, answer: sync.OnceFunc(func() { close(answered) }), ended: make(chan struct{}),
		now: finding{kind: Unread},
	}
}

// Run follows the object until ctx ends, and logs to the logger of ctx when it becomes wrong or right. It returns nil,
// and must be called once.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.end()
	w.follow(ctx)
	return nil
}

// Check returns nil if what the kubelet tells about pods can be believed, else an *[Error]. It waits only where the API
// server has not answered since the start, until it does, ctx ends or [Watcher.Run] ends. What is known is returned
// even if ctx has ended; whoever is to hear that nothing is known must still listen when ctx ends.
func (w *Watcher) Check(ctx context.Context) error {
	select {
	case <-w.answered:
	case <-w.ended:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.verdict(w.now)
}

// verdict returns a finding as [Watcher.Check] does.
func (w *Watcher) verdict(f finding) error {
	if f.kind == "" {
		return nil
	}
	return &Error{Name: w.name, Kind: f.kind, Err: f.err}
}

// update changes what is known and returns what was known before and is now. Nothing changes once ctx has ended: the
// requests that it cuts short say nothing about the object.
func (w *Watcher) update(ctx context.Context, change func(*finding)) (before, after finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.now
	if ctx.Err() != nil {
		return before, before
	}
	change(&w.now)
	if w.now.kind != Unread || apierrors.IsForbidden(w.now.err) {
		w.answer()
	}
	return before, w.now
}

// end lets go of everybody who waits.
func (w *Watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.kind == Unread {
		w.now.err = errStopping
	}
	close(w.ended)
}

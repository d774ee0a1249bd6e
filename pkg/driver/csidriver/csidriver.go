// Package csidriver watches the CSIDriver object of the driver, and reports whether the kubelet's
// statements about pods can be trusted: only with podInfoOnMount does the kubelet write the keys
// about the pod into the context of a volume, and replace what the author of the pod wrote there.
//
// It does not know requests, volumes or pods.
package csidriver

import (
	"context"
	"sync"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
)

// Watcher knows what is wrong with one CSIDriver object. While the API server is away, the last
// finding stays.
type Watcher struct {
	client   rest.Interface // Of storage.k8s.io/v1.
	types    *kubeclient.Types
	name     string
	answered chan struct{} // Closed when the API server has answered or denied the first request.
	answer   func()        // Closes answered; may be called more than once.
	ended    chan struct{} // Closed when Run ends.

	mu  sync.Mutex // Guards now; never held while waiting or calling out.
	now finding
}

// finding is what is known at one moment.
type finding struct {
	kind Kind  // The problem; empty for none.
	err  error // Why the object is not watched; nil once a watch is open. For users.
}

// New returns a watcher of the CSIDriver object with the name, which knows nothing before
// [Watcher.Run]. The client is one of storage.k8s.io/v1.
func New(client rest.Interface, types *kubeclient.Types, name string) *Watcher {
	answered := make(chan struct{})
	return &Watcher{
		client: client, types: types, name: name,
		answered: answered, answer: sync.OnceFunc(func() { close(answered) }), ended: make(chan struct{}),
		now: finding{kind: Unread},
	}
}

// Run follows the object until ctx ends, and logs to the logger of ctx when it becomes wrong or
// right. It returns nil, and must be called once.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.end()
	group := objectwatch.New(w.types)
	kind := &objectwatch.Kind{
		Group: storagev1.GroupName, Name: "csidriver",
		Object: &storagev1.CSIDriver{}, List: &storagev1.CSIDriverList{},
	}
	target := objectwatch.Target{Client: w.client, Kind: kind, Name: w.name, Reopen: objectwatch.QuietTime}
	group.Follower(target, &handler{watcher: w, ctx: ctx}).Start() //nolint:contextcheck // The group gets it next.
	return group.Run(ctx)
}

// Check returns nil if the kubelet's statements about pods can be trusted, else an *[Error]. It
// waits for the API server's first answer, until ctx or [Watcher.Run] ends. It returns what is
// known even if ctx has ended.
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

// update changes the finding and returns the one before and the one after. Nothing changes after
// ctx has ended: an error of a request that ctx cancelled is not about the object.
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

// end releases all callers of [Watcher.Check].
func (w *Watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.kind == Unread {
		w.now.err = errStopping
	}
	close(w.ended)
}

// handler makes findings of what the watch of the object delivers, and logs the changes. It stores
// nothing of the object.
type handler struct {
	watcher *Watcher
	ctx     context.Context // Run's.
}

var _ objectwatch.Handler = (*handler)(nil)

// Allow implements [objectwatch.Handler].
func (*handler) Allow(context.Context) error { return nil }

// Found implements [objectwatch.Handler].
func (h *handler) Found(o metav1.Object) *objectwatch.Pause {
	d, ok := o.(*storagev1.CSIDriver)
	if ok && d.Spec.PodInfoOnMount != nil && *d.Spec.PodInfoOnMount {
		h.find("")
	} else {
		h.find(Unvouched)
	}
	return nil
}

// Missing implements [objectwatch.Handler].
func (h *handler) Missing() { h.find(Missing) }

// find records what is wrong with the object, and logs a change.
func (h *handler) find(kind Kind) {
	before, after := h.watcher.update(h.ctx, func(f *finding) { f.kind = kind })
	switch {
	case before.kind == after.kind:
	case after.kind == "":
		h.logger().Info("The kubelet vouches for pods")
	default:
		// Without the error of an earlier request: this one has succeeded.
		h.logger().Error(h.watcher.verdict(finding{kind: after.kind}), "New volumes are refused")
	}
}

// Outcome implements [objectwatch.Handler]. It logs trouble of another sort than before; the text
// may differ between attempts.
func (h *handler) Outcome(err error) {
	if err != nil {
		err = cannotRead(h.watcher.name, err)
	}
	before, after := h.watcher.update(h.ctx, func(f *finding) { f.err = err })
	switch {
	case sameSort(before.err, after.err):
	case after.err == nil:
		h.logger().Info("The CSIDriver object is watched again")
	case after.kind == Unread:
		h.logger().Error(h.watcher.verdict(after), "No new volume can be published yet")
	default:
		h.logger().Error(after.err, "The driver cannot read the CSIDriver object, and uses its last state")
	}
}

// sameSort reports whether both errors are nil, denials, or other trouble.
func sameSort(a, b error) bool {
	return (a == nil) == (b == nil) && apierrors.IsForbidden(a) == apierrors.IsForbidden(b)
}

func (h *handler) logger() klog.Logger {
	return klog.FromContext(h.ctx).WithValues(logkeys.Driver, h.watcher.name)
}

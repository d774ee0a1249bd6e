package source

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/inflow"
	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
)

// How long a watcher waits after the API server refused or dropped it: doubling, with jitter.
const (
	firstRetry  = 200 * time.Millisecond
	longestWait = 5 * time.Second
	retrySteps  = 6
)

// longestDoubt is how long the API server has to deny an object to be believed. It is longer than one takes to start.
const longestDoubt = 15 * time.Second

// driverWatch is how long a quiet watch of the driver's own stays open at least, as the kubelet has it: opening anew is a
// request. Its rights hardly change.
const driverWatch = 30 * time.Minute

// The reflector's first list asks for any version, which a server may answer from a cache that lags behind: with
// something older than another server has said, or than an immutable object, which is read once and never again. So the
// latest is asked for. Lists that name the version they know are answered with nothing older, and stay as they are.
const (
	anyVersion    = "0"
	latestVersion = ""
)

// watcher keeps one item's snapshot current by listing and watching the one object by name. It is what its reflector asks,
// and the store its reflector writes to.
type watcher struct {
	cache  *Cache
	key    Key
	item   *item
	ctx    context.Context // Done once this watch is stopped; checked under the cache's lock.
	object object
	vigil  *vigil // Guarded by the cache's lock.

	// The reflector makes one request at a time.
	canList bool   // The last list was answered, and nothing was heard of a watch since but that it is forbidden.
	polls   bool   // The last list was refused, and a get answered in its place.
	crowded int64  // How much room the last content needs that could not be taken; zero for none.
	decoded func() // Says that what was listed is no longer under way.
	// unwatched is when a watch was first refused since one was open, and denied is the first of the denials that were the
	// only answers since; zero for neither.
	unwatched, denied time.Time
}

var (
	_ cache.ReflectorStore         = (*watcher)(nil)
	_ cache.ReflectorBookmarkStore = (*watcher)(nil)
)

// run watches until the watcher's context ends.
func (w *watcher) run() {
	silent := klog.Logger{} // It would repeat each error with each try.
	reflector := cache.NewReflectorWithOptions(w.listWatch(), w.example(), w, cache.ReflectorOptions{
		Logger:          &silent,
		Name:            w.key.Ref.String(),
		MinWatchTimeout: driverWatch,
		Backoff: &wait.Backoff{
			Duration: firstRetry, Factor: 2, Jitter: 1, Steps: retrySteps, Cap: longestWait,
		},
	})
	reflector.RunWithContext(klog.NewContext(w.ctx, silent))
}

// limitWatch has the watch of a pod's opened anew now and then, by which the API server decides anew whether the pod may
// read. Jitter keeps the pods of a node apart.
func (w *watcher) limitWatch(o *metav1.ListOptions) {
	if w.key.Identity == identity.Driver() {
		return
	}
	seconds := int64(wait.Jitter(w.cache.cfg.Recheck*2/3, 1).Seconds())
	o.TimeoutSeconds = &seconds
}

func (w *watcher) example() runtime.Object {
	if w.key.Ref.Kind == api.Secret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

// plainLists asks for a list followed by a watch. Streaming the list through the watch would make the first answer wait
// until the API server's cache has caught up with etcd, which for one object costs more than the list.
type plainLists struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is how a reflector asks.
func (plainLists) IsWatchListSemanticsUnSupported() bool { return true }

func (w *watcher) listWatch() cache.ListerWatcher {
	return plainLists{&cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			// The reflector does not cancel a list it has given up; the watcher's own context does.
			l, err := w.list(w.ctx, o) //nolint:contextcheck // As said above.
			if err != nil {
				w.noteOutcome(err)
				return l, err
			}
			w.denied = time.Time{}
			return l, nil // That all is well is for the watch to say, which may be refused where lists are not.
		},
		WatchFuncWithContext: w.watch,
	}}
}

// list reads the object. Who may not list it but get it is answered by a get.
func (w *watcher) list(ctx context.Context, o metav1.ListOptions) (_ runtime.Object, err error) {
	ctx, w.decoded = inflow.Hold(ctx)
	defer func() {
		if err != nil {
			w.decoded() // Nothing is handed over.
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	o = w.beginList(o)
	if err := w.allow(ctx); err != nil {
		return nil, err
	}
	l, err := w.object.list(ctx, o)
	w.canList, w.polls = err == nil, false
	if !apierrors.IsForbidden(err) {
		return l, err
	}
	l, getErr := w.object.get(ctx)
	if apierrors.IsForbidden(getErr) {
		return nil, w.denial(err) // What the list lacks is what is to be granted.
	}
	w.polls = getErr == nil
	return l, getErr
}

// watch opens a watch. Who may only read the object gets one that ends after a while, upon which it is listed again.
func (w *watcher) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	switch {
	case w.crowded > 0:
		return w.rest(), nil
	case w.polls:
		return w.poll(), nil
	}
	if err := w.allow(ctx); err != nil {
		w.noteOutcome(err)
		return nil, err
	}
	w.limitWatch(&o)
	ctx, err := w.beginWatch(ctx, o)
	if err != nil {
		return nil, err
	}
	i, err := w.endAsking(w.object.watch(ctx, o))
	if outdated(o, err) {
		return nil, err
	}
	if apierrors.IsForbidden(err) {
		if w.canList {
			return w.poll(), nil
		}
		return nil, err // The list that comes next tells whether everything is forbidden.
	}
	w.canList = false // It was said before this, and how long ago nobody knows.
	w.noteOutcome(err)
	if utilnet.IsConnectionRefused(err) {
		return nil, errOver() // Else the reflector would go on with the version it knows: see there.
	}
	return i, err
}

// outdated reports whether a request did not succeed only because of the version that it named: one the server has
// forgotten, or has not come to since it was restored. The reflector then lists anew, and nothing is wrong.
func outdated(o metav1.ListOptions, err error) bool {
	return o.ResourceVersion != latestVersion && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge))
}

// denial says who is denied: the pod, or the driver, after it was told that the pod may get the object.
func (w *watcher) denial(err error) error {
	if w.key.Identity.ByDriver {
		return &driverDeniedError{cause: err}
	}
	return err
}

// driverDeniedError is no denial of the pod, and must not pass for one. So it does not unwrap to its cause.
type driverDeniedError struct{ cause error }

func (e *driverDeniedError) Error() string {
	return fmt.Sprintf("the pod may get it, but the driver may not (see its ClusterRole): %v", e.cause)
}

func (w *watcher) allow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	return w.cache.cfg.Allow(ctx, w.key.Identity, w.key.Ref)
}

// poll stands for a watch until it is time to list again: soon at first, since the refusal may be the server's mistake.
func (w *watcher) poll() watch.Interface {
	now := time.Now()
	if w.unwatched.IsZero() {
		w.unwatched = now
	}
	since := now.Sub(w.unwatched)
	w.cache.update(w, func(s *Snapshot) bool {
		before := *s
		s.Err, s.Revoked, s.Polled = nil, false, since >= w.doubt()
		return before.Err != nil || before.Polled != s.Polled
	})
	rest := min(max(firstRetry, since), longestPoll, w.cache.cfg.Recheck)
	return newPause(wait.Jitter(rest, pollJitter))
}

// doubt is how long the API server has to deny something to be believed.
func (w *watcher) doubt() time.Duration { return min(w.cache.cfg.Recheck, longestDoubt) }

// noteOutcome remembers why the object cannot be kept current, or, for nil, that it can. What was read before stays. A
// cause of the same sort is no change, although its text may differ from try to try; a server that is back and denies
// access is one. What was revoked stays so, and says so, until the server has granted it again: an outage grants nothing.
func (w *watcher) noteOutcome(err error) {
	if err == nil {
		w.unwatched = time.Time{}
	}
	revoked := w.isRevoked(err)
	w.cache.update(w, func(s *Snapshot) bool {
		if s.Revoked && err != nil {
			return false
		}
		polled := s.Polled && err != nil // Otherwise a watch is open.
		changed := !sameSort(s.Err, err) || s.Revoked != revoked || s.Polled != polled
		s.Err, s.Revoked, s.Polled = err, revoked, polled
		return changed
	})
}

// sameSort reports whether two errors, or none, are the same trouble, whatever their texts say.
func sameSort(a, b error) bool {
	return (a == nil) == (b == nil) && isExhausted(a) == isExhausted(b) &&
		apierrors.ReasonForError(a) == apierrors.ReasonForError(b)
}

// log says that the object is not kept current, or that it is again.
func (w *watcher) log(err error) {
	logger := klog.FromContext(w.ctx).WithValues(logkeys.Ref, w.key.Ref, logkeys.Identity, w.key.Identity)
	if err == nil {
		logger.Info("An object is kept current again")
		return
	}
	logger.Error(err, "An object is not kept current")
}

// isRevoked reports whether the outcome, after those before it, means that the object may not be read any more.
func (w *watcher) isRevoked(err error) bool {
	now := time.Now()
	switch {
	case !apierrors.IsForbidden(err), w.key.Identity == identity.Driver():
		w.denied = time.Time{}
		return false
	case w.denied.IsZero():
		w.denied = now
	}
	return now.Sub(w.denied) >= w.doubt()
}

// Add takes the object's creation.
func (w *watcher) Add(obj any) error {
	w.noteSign()
	return w.take(obj)
}

// Update takes the object's change.
func (w *watcher) Update(obj any) error {
	w.noteSign()
	return w.take(obj)
}

// Delete takes the object's deletion.
func (w *watcher) Delete(any) error {
	w.noteSign()
	w.lose()
	return nil
}

// Replace takes a fresh list, which holds the object or nothing.
func (w *watcher) Replace(objs []any, _ string) error {
	defer w.decoded()
	w.noteList()
	if len(objs) == 0 {
		w.lose()
		return nil
	}
	return w.take(objs[0])
}

// Resync does nothing: there is nothing beside what was taken.
func (w *watcher) Resync() error { return nil }

func (w *watcher) take(obj any) error {
	content, err := contentOf(w.key.Ref, obj)
	if err != nil || !w.admit(content) {
		return err
	}
	w.cache.update(w, func(s *Snapshot) bool {
		same := s.Synced && s.Found && s.Content.UID == content.UID &&
			s.Content.ResourceVersion == content.ResourceVersion
		if same {
			return false
		}
		s.Synced, s.Found, s.Content, s.Changed = true, true, content, time.Now()
		if content.Immutable {
			s.Err, s.Revoked, s.Polled = nil, false, false // Nothing is missed, and who may read it was just decided.
		}
		return true
	})
	return nil
}

func (w *watcher) lose() {
	w.dismiss()
	w.cache.update(w, func(s *Snapshot) bool {
		if s.Synced && !s.Found {
			return false
		}
		s.Synced, s.Found, s.Content, s.Changed = true, false, api.Content{}, time.Now()
		return true
	})
}

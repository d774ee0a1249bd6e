package csidriver

import (
	"context"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

// How long the watcher waits after the API server refused or dropped it: doubling, with jitter.
const (
	firstRetry  = 200 * time.Millisecond
	longestWait = 5 * time.Second
	retrySteps  = 6
)

// quietWatch is how long a watch stays open at least while nothing happens. The object hardly ever changes.
const quietWatch = 30 * time.Minute

// answerLimit is how long the API server has to answer a list: one that is never answered must not keep the object from
// being asked for again. overstay is how much longer a watch may last than the server was asked to keep it: by then it is
// dead, and nobody has said so.
const (
	answerLimit = time.Minute
	overstay    = 30 * time.Second
)

// The reflector's first list asks for any version, which a server may answer from a cache that lags behind: with an
// object that vouched for pods until an hour ago. So the latest is asked for. Lists that name the version they know are
// answered with nothing older, and stay as they are.
const (
	anyVersion    = "0"
	latestVersion = ""
)

const resource = "csidrivers"

// follow lists and watches until ctx ends.
func (w *Watcher) follow(ctx context.Context) {
	s := &store{watcher: w, ctx: ctx}
	silent := klog.Logger{} // The reflector would log every try that fails, and the store logs what they come to.
	reflector := cache.NewReflectorWithOptions(s.listWatch(), &storagev1.CSIDriver{}, s, cache.ReflectorOptions{
		Logger:          &silent,
		Name:            "csidriver " + w.name,
		MinWatchTimeout: quietWatch,
		Backoff: &wait.Backoff{
			Duration: firstRetry, Factor: 2, Jitter: 1, Steps: retrySteps, Cap: longestWait,
		},
	})
	reflector.RunWithContext(klog.NewContext(ctx, silent))
}

// store is what the reflector writes to. It keeps the finding, and nothing of the object.
type store struct {
	watcher *Watcher
	ctx     context.Context    // Run's.
	cancel  context.CancelFunc // Ends the latest watch; nil before it. The reflector makes one request at a time.
}

var _ cache.ReflectorStore = (*store)(nil)

// plainLists asks for a list followed by a watch. A list that is streamed through the watch makes the first answer wait
// until the API server's cache has caught up with etcd.
type plainLists struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is how a reflector asks.
func (plainLists) IsWatchListSemanticsUnSupported() bool { return true }

// listWatch selects the one object by name, so that RBAC can name it.
func (s *store) listWatch() cache.ListerWatcher {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, s.watcher.name).String()
	return plainLists{&cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			if o.ResourceVersion == anyVersion {
				o.ResourceVersion = latestVersion
			}
			// The reflector does not cancel a list it has given up; Run's context does.
			ctx, cancel := context.WithTimeout(s.ctx, answerLimit)
			defer cancel()
			l, err := s.watcher.list(ctx, o) //nolint:contextcheck // As said above.
			if err != nil && !outdated(o, err) {
				s.noteOutcome(err)
			}
			return l, err // That all is well is for the watch to say, which may be refused where lists are not.
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			i, err := s.watcher.watch(s.limit(ctx, o), o)
			if !outdated(o, err) {
				s.noteOutcome(err)
			}
			return i, err
		},
	}}
}

// list reads the objects that are selected.
func (w *Watcher) list(ctx context.Context, o metav1.ListOptions) (*storagev1.CSIDriverList, error) {
	list := &storagev1.CSIDriverList{}
	err := w.client.Get().Resource(resource).VersionedParams(&o, w.types.Parameters()).Do(ctx).Into(list)
	return list, err
}

// watch opens a watch of the objects that are selected.
func (w *Watcher) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return w.client.Get().Resource(resource).VersionedParams(&o, w.types.Parameters()).Watch(ctx)
}

// limit returns the context for a watch, which ends when the watch has lasted for too long. It ends that of the one before.
func (s *store) limit(ctx context.Context, o metav1.ListOptions) context.Context {
	if s.cancel != nil {
		s.cancel()
	}
	ctx, s.cancel = context.WithTimeout(ctx, time.Duration(*o.TimeoutSeconds)*time.Second+overstay)
	return ctx
}

// outdated reports whether a request did not succeed only because of the version that it named: one the server has
// forgotten, or has not come to since it was restored. The reflector then asks for the latest, and nothing is wrong.
func outdated(o metav1.ListOptions, err error) bool {
	return o.ResourceVersion != latestVersion && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge))
}

// Add takes the object's creation.
func (s *store) Add(obj any) error { return s.take(obj) }

// Update takes the object's change.
func (s *store) Update(obj any) error { return s.take(obj) }

// Delete takes the object's deletion.
func (s *store) Delete(any) error {
	s.find(Missing)
	return nil
}

// Replace takes a fresh list, which holds the object or nothing.
func (s *store) Replace(objs []any, _ string) error {
	if len(objs) == 0 {
		s.find(Missing)
		return nil
	}
	return s.take(objs[0])
}

// Resync does nothing: there is nothing beside what was found.
func (s *store) Resync() error { return nil }

func (s *store) take(obj any) error {
	o, ok := obj.(*storagev1.CSIDriver)
	if !ok {
		return fmt.Errorf("watch of the CSIDriver object %s brought a %T", s.watcher.name, obj)
	}
	if o.Spec.PodInfoOnMount == nil || !*o.Spec.PodInfoOnMount {
		s.find(Unvouched)
	} else {
		s.find("")
	}
	return nil
}

// find notes what is wrong with the object, and logs it if it is news.
func (s *store) find(kind Kind) {
	before, after := s.watcher.update(s.ctx, func(f *finding) { f.kind = kind })
	switch {
	case before.kind == after.kind:
	case after.kind == "":
		s.logger().Info("The kubelet vouches for pods")
	default:
		// The error of an earlier request is left out: this one has succeeded.
		s.logger().Error(s.watcher.verdict(finding{kind: after.kind}), "New volumes are refused")
	}
}

// noteOutcome remembers why the object cannot be kept current, or, for nil, that it can. What was found before stays.
// It is logged if it is trouble of another sort than before; its text may differ from try to try.
func (s *store) noteOutcome(err error) {
	if err != nil {
		err = cannotRead(s.watcher.name, err)
	}
	before, after := s.watcher.update(s.ctx, func(f *finding) { f.err = err })
	switch {
	case sameSort(before.err, after.err):
	case after.err == nil:
		s.logger().Info("The CSIDriver object is watched again")
	case after.kind == Unread:
		s.logger().Error(s.watcher.verdict(after), "No new volume can be published yet")
	default:
		s.logger().Error(after.err, "What is known of the CSIDriver object stays as it is")
	}
}

// sameSort tells a server that is away from one that denies access, and both from one that serves.
func sameSort(a, b error) bool {
	return (a == nil) == (b == nil) && apierrors.IsForbidden(a) == apierrors.IsForbidden(b)
}

func (s *store) logger() klog.Logger {
	return klog.FromContext(s.ctx).WithValues(logkeys.Driver, s.watcher.name)
}

package source

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
)

// How long a watcher waits after the API server refused or dropped it: doubling, with jitter.
const (
	firstRetry  = 200 * time.Millisecond
	longestWait = 5 * time.Second
	retrySteps  = 6
)

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

// watcher keeps one item's snapshot current by listing and watching the one object by name. It is the store its
// reflector writes to.
type watcher struct {
	cache *Cache
	key   Key
	item  *item
	ctx   context.Context // Done once this watch is stopped; checked under the cache's lock.
}

var _ cache.ReflectorStore = (*watcher)(nil)

// run watches until the watcher's context ends.
func (w *watcher) run(client corev1client.CoreV1Interface) {
	reflector := cache.NewReflectorWithOptions(w.listWatch(client), w.example(), w, cache.ReflectorOptions{
		Name:            w.key.Ref.String(),
		MinWatchTimeout: driverWatch,
		Backoff: &wait.Backoff{
			Duration: firstRetry, Factor: 2, Jitter: 1, Steps: retrySteps, Cap: longestWait,
		},
	})
	reflector.RunWithContext(w.ctx)
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

// listWatch selects the one object by name, so that RBAC can name it and nothing else is sent or held.
func (w *watcher) listWatch(client corev1client.CoreV1Interface) cache.ListerWatcher {
	ref := w.key.Ref
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.FieldSelector = selector
		if o.ResourceVersion == anyVersion {
			o.ResourceVersion = latestVersion
		}
		if ref.Kind == api.Secret {
			return client.Secrets(ref.Namespace).List(ctx, o)
		}
		return client.ConfigMaps(ref.Namespace).List(ctx, o)
	}
	open := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = selector
		w.limitWatch(&o)
		if ref.Kind == api.Secret {
			return client.Secrets(ref.Namespace).Watch(ctx, o)
		}
		return client.ConfigMaps(ref.Namespace).Watch(ctx, o)
	}
	return plainLists{&cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			// The reflector does not cancel a list it has given up; the watcher's own context does.
			l, err := list(w.ctx, o) //nolint:contextcheck // As said above.
			if err != nil {
				w.noteOutcome(err)
			}
			return l, err // That all is well is for the watch to say, which may be refused where lists are not.
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			i, err := open(ctx, o)
			w.noteOutcome(err)
			return i, err
		},
	}}
}

// noteOutcome remembers why the object cannot be kept current, or, for nil, that it can. What was read before stays. A
// cause of the same sort is no change, although its text may differ from try to try; a server that is back and denies
// access is one.
func (w *watcher) noteOutcome(err error) {
	w.cache.update(w, func(s *Snapshot) bool {
		changed := (s.Err == nil) != (err == nil) || apierrors.ReasonForError(s.Err) != apierrors.ReasonForError(err)
		s.Err = err
		return changed
	})
}

// Add takes the object's creation.
func (w *watcher) Add(obj any) error { return w.take(obj) }

// Update takes the object's change.
func (w *watcher) Update(obj any) error { return w.take(obj) }

// Delete takes the object's deletion.
func (w *watcher) Delete(any) error {
	w.lose()
	return nil
}

// Replace takes a fresh list, which holds the object or nothing.
func (w *watcher) Replace(objs []any, _ string) error {
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
	if err != nil {
		return err
	}
	w.cache.update(w, func(s *Snapshot) bool {
		same := s.Synced && s.Found && s.Content.UID == content.UID &&
			s.Content.ResourceVersion == content.ResourceVersion
		if same {
			return false
		}
		err := s.Err
		if content.Immutable {
			err = nil // It needs no watch, so nothing is wrong any more.
		}
		*s = Snapshot{Synced: true, Found: true, Content: content, Changed: time.Now(), Err: err}
		return true
	})
	return nil
}

func (w *watcher) lose() {
	w.cache.update(w, func(s *Snapshot) bool {
		if s.Synced && !s.Found {
			return false
		}
		*s = Snapshot{Synced: true, Changed: time.Now(), Err: s.Err}
		return true
	})
}

// contentOf keeps of an object what a volume can need.
func contentOf(ref api.Ref, obj any) (api.Content, error) {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		data := make(map[string][]byte, len(o.Data)+len(o.BinaryData))
		maps.Copy(data, o.BinaryData)
		for k, v := range o.Data {
			data[k] = []byte(v)
		}
		return content(ref, &o.ObjectMeta, o.Immutable, data), nil
	case *corev1.Secret:
		return content(ref, &o.ObjectMeta, o.Immutable, o.Data), nil
	default:
		return api.Content{}, fmt.Errorf("watch of %s brought a %T", ref, obj)
	}
}

func content(ref api.Ref, meta *metav1.ObjectMeta, immutable *bool, data map[string][]byte) api.Content {
	return api.Content{
		Ref: ref, UID: string(meta.UID), ResourceVersion: meta.ResourceVersion,
		Immutable: immutable != nil && *immutable, Data: data,
	}
}

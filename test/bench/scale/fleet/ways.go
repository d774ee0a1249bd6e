package fleet

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

const (
	// largeAnswers is how many a driver reads at a time.
	largeAnswers = 4
	// recheck is the driver's default.
	recheck = 2 * time.Minute
)

// acquire has the driver's source layer watch objects, as the driver is put together.
func (n *node) acquire(config *rest.Config, refs []api.Ref) error {
	config.Wrap(n.watched) // What waits for its turn is not sent yet.
	config.Wrap(flowcontrol.New(largeAnswers).Transport)
	var sources *source.Cache
	changed := func(key source.Key) {
		if s := sources.Look(key)[0]; s.Found {
			n.saw(key.Ref.Name, string(s.Content.Data[Key]))
		}
	}
	sources, err := n.newCache(config, changed)
	if err != nil {
		return err
	}
	c := n.crowd
	c.wg.Go(func() { _ = sources.Run(c.ctx) }) // It always returns nil.
	for _, ref := range refs {
		release, err := sources.Acquire(source.Key{Identity: identity.Driver(), Ref: ref})
		if err != nil {
			return err
		}
		c.closers = append(c.closers, release)
	}
	return nil
}

// newCache is all that depends on how a cache is made.
func (n *node) newCache(config *rest.Config, changed func(source.Key)) (*source.Cache, error) {
	types := n.crowd.types
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client, err := types.Client(config, transport, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return source.New(source.Config{
		Client:  func(identity.Identity) (rest.Interface, error) { return client, nil },
		Types:   types,
		Allow:   func(context.Context, identity.Identity, api.Ref) error { return nil },
		Denies:  func(context.Context, identity.Identity, api.Ref) (bool, error) { return false, nil },
		Changed: changed,
		Recheck: recheck,
		Room:    budget.New(math.MaxInt64 / 2).Part(func(int64) {}),
	}), nil
}

// kubeletWatch is how long a watch of the kubelet's stays open at least.
const kubeletWatch = 30 * time.Minute

// reflect watches objects as the kubelet does for its own volumes: a reflector per object with the client library's own
// pauses between tries.
func (n *node) reflect(config *rest.Config, refs []api.Ref) error {
	config.Wrap(n.watched)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		byName := fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
		maps := client.CoreV1().ConfigMaps(ref.Namespace)
		lists := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.FieldSelector = byName
				return maps.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.FieldSelector = byName
				return maps.Watch(ctx, o)
			},
		}, client)
		silent := klog.Logger{}
		reflector := cache.NewReflectorWithOptions(lists, &corev1.ConfigMap{}, &store{node: n}, cache.ReflectorOptions{
			Name: ref.Name, MinWatchTimeout: kubeletWatch, Logger: &silent,
		})
		ctx, stop := context.WithCancel(klog.NewContext(n.crowd.ctx, silent))
		n.crowd.closers = append(n.crowd.closers, stop)
		n.crowd.wg.Go(func() {
			defer stop()
			reflector.RunWithContext(ctx)
		})
	}
	return nil
}

// store holds one object, and notes its versions.
type store struct {
	node   *node
	object any
}

var _ cache.ReflectorStore = (*store)(nil)

// Add takes the object.
func (s *store) Add(o any) error {
	s.object = o
	if m, ok := o.(*corev1.ConfigMap); ok {
		s.node.saw(m.Name, m.Data[Key])
	}
	return nil
}

// Update takes the object.
func (s *store) Update(o any) error { return s.Add(o) }

// Delete drops the object.
func (s *store) Delete(any) error {
	s.object = nil
	return nil
}

// Replace takes the object, or drops it.
func (s *store) Replace(all []any, _ string) error {
	s.object = nil
	for _, o := range all {
		if err := s.Add(o); err != nil {
			return err
		}
	}
	return nil
}

// Resync does nothing.
func (s *store) Resync() error { return nil }

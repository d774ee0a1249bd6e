package fleet

import (
	"context"
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
)

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

package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Watch follows the pods that may be of a workload.
type Watch struct {
	store cache.Store
	// Changed gets something when pods have changed since it was last empty.
	Changed chan struct{}
	// Failed receives an error after which pods cannot be followed.
	Failed chan error
	Stop   context.CancelFunc
}

// Watch begins to follow the pods, and returns when all are known.
func (c *Selector) Watch(ctx context.Context) (*Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{Changed: make(chan struct{}, 1), Failed: make(chan error, 1), Stop: cancel}
	pods := cache.NewFilteredListWatchFromClient(c.client.CoreV1().RESTClient(), "pods", c.Meta.Namespace, func(options *metav1.ListOptions) {
		options.LabelSelector, options.FieldSelector = c.options.LabelSelector, c.options.FieldSelector
	})
	informer := cache.NewSharedInformer(pods, &corev1.Pod{}, 0)
	if err := informer.SetWatchErrorHandlerWithContext(w.handle); err != nil {
		cancel()
		return nil, fmt.Errorf("follow its pods: %w", err)
	}
	note := func() {
		select {
		case w.Changed <- struct{}{}:
		default: // One is enough: the receiver looks at all pods.
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { note() },
		UpdateFunc: func(any, any) { note() },
		DeleteFunc: func(any) { note() },
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("follow its pods: %w", err)
	}
	w.store = informer.GetStore()
	go informer.RunWithContext(ctx)
	return w, w.await(ctx, informer.HasSynced)
}

// handle reports that pods cannot be followed, if another attempt is useless.
func (w *Watch) handle(_ context.Context, _ *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	select {
	case w.Failed <- fmt.Errorf("follow its pods, which takes the verbs list and watch: %w", err):
	default: // One is enough.
	}
}

// await returns when all pods are known.
func (w *Watch) await(ctx context.Context, isSynced func() bool) error {
	synced := make(chan bool, 1)
	go func() { synced <- cache.WaitForCacheSync(ctx.Done(), isSynced) }()
	select {
	case err := <-w.Failed:
		w.Stop()
		return err
	case ok := <-synced:
		if !ok {
			w.Stop()
			return fmt.Errorf("list its pods: %w", context.Cause(ctx))
		}
		return nil
	}
}

// Pods returns the pods as they are now.
func (w *Watch) Pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, item := range w.store.List() {
		if pod, ok := item.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

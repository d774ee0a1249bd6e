package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// podWatch follows the pods that may be of a workload.
type podWatch struct {
	store cache.Store
	// changed gets something when pods have changed since it was last empty.
	changed chan struct{}
	// failed gets what keeps pods from being followed, for good.
	failed chan error
	stop   context.CancelFunc
}

// watch begins to follow the pods, and returns when all are known.
func (c *crew) watch(ctx context.Context) (*podWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &podWatch{changed: make(chan struct{}, 1), failed: make(chan error, 1), stop: cancel}
	pods := c.client.CoreV1().Pods(c.meta.Namespace)
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector, options.FieldSelector = c.options.LabelSelector, c.options.FieldSelector
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector, options.FieldSelector = c.options.LabelSelector, c.options.FieldSelector
			return pods.Watch(ctx, options)
		},
	}, &corev1.Pod{}, 0)
	if err := informer.SetWatchErrorHandlerWithContext(w.handle); err != nil {
		cancel()
		return nil, fmt.Errorf("follow its pods: %w", err)
	}
	note := func() {
		select {
		case w.changed <- struct{}{}:
		default: // Who is told looks at all.
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

// handle takes in that pods cannot be followed. It is tried again, unless it is no use.
func (w *podWatch) handle(_ context.Context, _ *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	select {
	case w.failed <- fmt.Errorf("follow its pods, which takes the verbs list and watch: %w", err):
	default: // One is enough.
	}
}

// await returns when all pods are known.
func (w *podWatch) await(ctx context.Context, isSynced func() bool) error {
	synced := make(chan bool, 1)
	go func() { synced <- cache.WaitForCacheSync(ctx.Done(), isSynced) }()
	select {
	case err := <-w.failed:
		w.stop()
		return err
	case ok := <-synced:
		if !ok {
			w.stop()
			return fmt.Errorf("list its pods: %w", context.Cause(ctx))
		}
		return nil
	}
}

func (w *podWatch) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, item := range w.store.List() {
		if pod, ok := item.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

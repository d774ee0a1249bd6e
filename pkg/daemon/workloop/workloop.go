// Package workloop works on the keys of a work queue, one after the other. An error or a panic
// about one key concerns no other key: the key is tried again, later each time. A cache queues keys
// by [OnChange].
//
// It does not know the keys or the work.
package workloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

// ErrBehind is the error of work that has to wait until a cache shows the latest state. Like a
// conflict, it is expected, and the log has no line for it.
var ErrBehind = errors.New("the cache is behind")

// Loop works on the keys of a queue. Queue and Do are required.
type Loop[T comparable] struct {
	Queue workqueue.TypedRateLimitingInterface[T]
	// Do works on a key.
	Do func(context.Context, T) error
	// Panics counts the panics of Do under the name of the queue; nil for no count.
	Panics *prometheus.CounterVec
	Name   string
}

// Run works until the queue is shut down. Several goroutines may run one loop.
func (l Loop[T]) Run(ctx context.Context) {
	for {
		key, isOver := l.Queue.Get()
		if isOver {
			return
		}
		l.once(ctx, key)
	}
}

// once works on a key that was taken from the queue.
func (l Loop[T]) once(ctx context.Context, key T) {
	defer l.Queue.Done(key)
	err := Recover(func() error { return l.Do(ctx, key) })
	if err == nil {
		l.Queue.Forget(key)
		return
	}
	panicked, isPanic := errors.AsType[*PanicError](err)
	if isPanic && l.Panics != nil {
		l.Panics.WithLabelValues(l.Name).Inc()
	}
	logger := klog.FromContext(ctx)
	switch {
	case isPanic:
		logger.Error(err, "Will try again", logkeys.Key, fmt.Sprint(key), logkeys.Stack, panicked.Stack)
	case ctx.Err() != nil:
		return // It ends, and so does the queue.
	case !errors.Is(err, ErrBehind) && !apierrors.IsConflict(err):
		logger.Error(err, "Will try again", logkeys.Key, fmt.Sprint(key))
	}
	l.Queue.AddRateLimited(key)
}

// OnChange returns an event handler of a cache that calls changed with an object before and after
// its change; old is nil for an object that comes, and now for one that goes. A panic of changed is
// logged, and the next change goes on.
func OnChange(changed func(old, now any)) cache.ResourceEventHandler {
	safely := func(old, now any) {
		err := Recover(func() error {
			changed(old, now)
			return nil
		})
		if panicked, ok := errors.AsType[*PanicError](err); ok {
			key, _ := cache.MetaNamespaceKeyFunc(cmp.Or(now, old)) // Empty for what has no name.
			klog.Background().Error(err, "Passed over a change", logkeys.Key, key, logkeys.Stack, panicked.Stack)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { safely(nil, o) },
		UpdateFunc: safely,
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			safely(o, nil)
		},
	}
}

// PanicError is the error of work that has panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Recover calls do. It returns a [*PanicError] if do panics.
func Recover(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{value, string(debug.Stack())}
		}
	}()
	return do()
}

// NewPanics returns a count of panics for these queues, which it registers.
func NewPanics(registry prometheus.Registerer, queues ...string) (*prometheus.CounterVec, error) {
	panics := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liveconfig_controller_panics_total",
		Help: "Panics over one object, by queue. The controller goes on, and tries the object again later each time.",
	}, []string{"queue"})
	for _, name := range queues {
		panics.WithLabelValues(name)
	}
	return panics, registry.Register(panics)
}

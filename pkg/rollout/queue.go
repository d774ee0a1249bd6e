package rollout

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
)

// newQueue returns a work queue that is fair to namespaces.
func newQueue[T comparable](namespaceOf func(T) string, m fairqueue.Metrics) workqueue.TypedRateLimitingInterface[T] {
	return fairqueue.NewWorkQueue(namespaceOf,
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](50*time.Millisecond, time.Minute), m)
}

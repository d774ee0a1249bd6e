package rollout

import (
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// How soon a change is tried again that waits until a Role is granted. The controller cannot watch
// Roles, so it asks: each workload every three seconds, or less often where so many wait that there
// would be more than ten questions a second.
const (
	retryAccess   = 3 * time.Second
	accessSpacing = 100 * time.Millisecond
)

// accessWaits are the workloads whose changes wait for a Role.
type accessWaits struct {
	mu   sync.Mutex // Guards refs.
	refs map[workload.Ref]bool
}

func newAccessWaits() *accessWaits { return &accessWaits{refs: map[workload.Ref]bool{}} }

// add adds a workload and returns how long to wait before the next try.
func (a *accessWaits) add(ref workload.Ref) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refs[ref] = true
	return min(max(retryAccess, time.Duration(len(a.refs))*accessSpacing), retryHeld)
}

// forget removes a workload.
func (a *accessWaits) forget(ref workload.Ref) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.refs, ref)
}

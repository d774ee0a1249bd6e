package rollout

import (
	"sync"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// mostSourceEvents is how many Events there are about one version of a source. Each names a
// workload that uses the version. The client library drops all but about 25 Events about an object.
// The Events that it drops would still count for the namespace, and Events about the workloads
// would be left out.
const mostSourceEvents = 10

// sourceEvents counts the Events about the versions of sources.
type sourceEvents struct {
	mu   sync.Mutex // Guards last.
	last map[api.Ref]eventCount
}

// eventCount counts the Events about one version of a source.
type eventCount struct {
	version string
	count   int
}

func newSourceEvents() *sourceEvents { return &sourceEvents{last: map[api.Ref]eventCount{}} }

// take counts an Event about a version of a source, and reports whether it may be sent.
func (e *sourceEvents) take(source api.Ref, version string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.last[source]
	if last.version != version {
		last = eventCount{version: version}
	}
	if last.count >= mostSourceEvents {
		return false
	}
	last.count++
	e.last[source] = last
	return true
}

func (e *sourceEvents) forget(source api.Ref) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.last, source)
}

package rollout

import (
	"sync"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// mostTold is how many Events there are about one version of a source. Each names a workload that
// uses the version. The client library drops all but about 25 Events about an object. What it drops
// would still take the share of the namespace, which Events about the workloads need.
const mostTold = 10

// toldSources counts the Events about the versions of sources.
type toldSources struct {
	mu   sync.Mutex // Guards last.
	last map[api.Ref]told
}

// told counts the Events about one version of a source.
type told struct {
	version string
	count   int
}

// take counts an Event about a version of a source, and reports whether it may be sent.
func (t *toldSources) take(source api.Ref, version string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last[source]
	if last.version != version {
		last = told{version: version}
	}
	if last.count >= mostTold {
		return false
	}
	last.count++
	t.last[source] = last
	return true
}

func (t *toldSources) forget(source api.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, source)
}

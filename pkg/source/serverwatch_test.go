package source_test

import (
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// serverWatch is one open watch.
type serverWatch struct {
	cluster *cluster
	ref     api.Ref
	events  chan watch.Event
	isDead  bool // It brings nothing any more, and stays open.
}

func (w *serverWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop is what the client calls, also while it waits for events.
func (w *serverWatch) Stop() {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	if w.cluster.watches[w] {
		delete(w.cluster.watches, w)
		close(w.events)
	}
}

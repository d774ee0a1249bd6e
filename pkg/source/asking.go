package source

import "github.com/liveconfig-csi/liveconfig/pkg/inflow"

var _ inflow.Asker = (*watcher)(nil)

// Urgency is [inflow.Asker]: what a new volume waits for goes before what live ones have.
func (w *watcher) Urgency() inflow.Urgency {
	if w.item.isAwaited.Load() {
		return inflow.Awaited
	}
	return inflow.Routine
}

// Tenant is [inflow.Asker]: the namespace of the pods that use the object.
func (w *watcher) Tenant() string {
	if namespace := w.key.Identity.Namespace; namespace != "" {
		return namespace
	}
	return w.key.Ref.Namespace // The driver reads by itself only what is in the pod's own.
}

// Name is [inflow.Asker].
func (w *watcher) Name() string { return w.key.String() }

package source

import "github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"

var _ flowcontrol.Asker = (*watcher)(nil)

// Urgency is [flowcontrol.Asker]: new volumes wait for the first read of an object, and live volumes have their files.
func (w *watcher) Urgency() flowcontrol.Urgency {
	if w.item.isAwaited.Load() {
		return flowcontrol.Awaited
	}
	return flowcontrol.Routine
}

// Tenant is [flowcontrol.Asker]: the namespace of the pods that read the object.
func (w *watcher) Tenant() string {
	if namespace := w.key.Identity.Namespace; namespace != "" {
		return namespace
	}
	return w.key.Ref.Namespace // The driver's own identity reads only what is in the pod's namespace.
}

// Name is [flowcontrol.Asker]: a volume that is published again acquires the same key again.
func (w *watcher) Name() string { return w.key.String() }

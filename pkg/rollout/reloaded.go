package rollout

import (
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// askOfReloader returns what annotations of Reloader ask for, before it is known what the pod
// template uses.
func askOfReloader(w workload.Workload) reloader.Workload {
	return reloader.Workload{Annotations: w.Annotations, Template: w.Template.Annotations}
}

// listedForReloader returns the objects that annotations of Reloader name. Mistakes are reported
// when the workload is read.
func listedForReloader(w workload.Workload) []trigger.Object {
	listed, _ := askOfReloader(w).Triggers(func(trigger.Object) reloader.Mark { return "" })
	return listed
}

// addReloaded adds what triggers a workload by annotations of Reloader. A workload with mistakes
// has opted in: its rollouts wait, and its pod template stays as it is.
func (c *Controller) addReloaded(h *cachedWorkload) {
	ask := askOfReloader(h.is)
	ask.Used = c.sourcesUsedBy(h)
	var err error
	h.Triggers, err = ask.Triggers(func(o trigger.Object) reloader.Mark { return c.markOf(h, o) })
	h.addTrouble("", err)
	h.OptedIn = len(h.Triggers) > 0 || h.Trouble != ""
}

// markOf returns what the annotations of a source mean for a workload. A source that was deleted
// has the mark by which it became a trigger: pods that need the source could not start without its
// copy.
func (c *Controller) markOf(h *cachedWorkload, o trigger.Object) reloader.Mark {
	source, exists := c.caches.source(object{h.Namespace, o})
	_, isInConfig := h.Config[o]
	switch {
	case !exists && isInConfig:
		return reloader.Matched
	case !exists:
		return ""
	case source.IsReleased: // Its edits reach pods without a rollout.
		return reloader.Ignored
	default:
		return source.Mark
	}
}

// sourcesUsedBy returns the sources that a pod template uses by their names or by those of copies,
// without those that the controller may not read.
func (c *Controller) sourcesUsedBy(h *cachedWorkload) []trigger.Object {
	used := h.usedSources()
	for i, o := range used {
		made, isCopy := c.caches.copied(object{h.Namespace, o})
		if !isCopy {
			continue
		}
		if of, err := copies.SourceOf(made.Annotations); err == nil && of.Kind == o.Kind {
			used[i] = of
		}
	}
	return slices.DeleteFunc(used, func(o trigger.Object) bool { return o.Kind == api.Secret && !c.cfg.Secrets })
}

// reloadedBy returns the workloads that annotations of Reloader decide about and whose pod
// templates use an object, or may use it.
func (c *Controller) reloadedBy(o object) []*cachedWorkload {
	return slices.DeleteFunc(c.caches.reloadedIn(o.namespace), func(h *cachedWorkload) bool {
		last, isKnown := c.uses.of(h.is.Ref, h.Sum)
		full := *h // Objects of the caches are shared.
		full.Uses = last.uses
		return isKnown && !slices.Contains(c.sourcesUsedBy(&full), o.Object)
	})
}

package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// askOfReloader returns what annotations of Reloader ask for, before it is known what the pod
// template uses.
func askOfReloader(w workload.Workload) reloader.Workload {
	return reloader.Workload{Annotations: w.Annotations, Template: w.Template.Annotations}
}

// knownMatches are what regular expressions of Reloader match, and what decides about that.
type knownMatches struct {
	patterns map[api.Kind][]string
	used     []api.Ref
	matches  reloader.Matches
}

// matching is the work to match the regular expressions of a workload.
type matching struct{ workload.Ref }

// addReloaded adds what triggers a workload by annotations of Reloader, or returns how long that
// has to wait. A workload with mistakes has opted in: its rollouts wait, and its pod template stays
// as it is.
func (c *Controller) addReloaded(h *cachedWorkload) time.Duration {
	ask := askOfReloader(h.is)
	ask.Used = c.sourcesUsedBy(h)
	var wait time.Duration
	if ask.Matches, wait = c.match(h, ask); wait > 0 {
		return wait
	}
	var err error
	h.Triggers, err = ask.Triggers(func(o api.Ref) reloader.Mark { return c.markOf(h, o) })
	h.addTrouble("", err)
	h.OptedIn = len(h.Triggers) > 0 || h.Trouble != ""
	return 0
}

// match returns what regular expressions of a workload match, or how long they have to wait. They
// are matched again when they or the names change, and the namespace is charged each time.
func (c *Controller) match(h *cachedWorkload, ask reloader.Workload) (reloader.Matches, time.Duration) {
	patterns := ask.Patterns()
	if len(patterns) == 0 {
		return reloader.Matches{}, 0
	}
	last := c.uses.matchesOf(h.is.Ref)
	if maps.EqualFunc(last.patterns, patterns, slices.Equal) && slices.Equal(last.used, ask.Used) {
		return last.matches, 0
	}
	work := matching{h.is.Ref}
	if wait := c.attributeBytes.Wait(h.Namespace, work, ask.Cost()); wait > 0 {
		return nil, wait
	}
	c.attributeBytes.Forget(work)
	last = knownMatches{patterns: patterns, used: ask.Used, matches: ask.Match()}
	c.uses.storeMatches(h.is.Ref, last)
	return last.matches, 0
}

// markOf returns what the annotations of a source mean for a workload. A source that was deleted
// has the mark by which it became a trigger: pods that need the source could not start without its
// copy.
func (c *Controller) markOf(h *cachedWorkload, o api.Ref) reloader.Mark {
	source, exists := c.caches.source(o.In(h.Namespace))
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
func (c *Controller) sourcesUsedBy(h *cachedWorkload) []api.Ref {
	used := h.usedSources()
	for i, o := range used {
		made, isCopy := c.caches.copied(o.In(h.Namespace))
		if !isCopy {
			continue
		}
		if of, err := copies.SourceOf(made.Annotations); err == nil && of.Kind == o.Kind {
			used[i] = of
		}
	}
	return slices.DeleteFunc(used, func(o api.Ref) bool { return o.Kind == api.Secret && !c.cfg.Secrets })
}

// reloadedBy returns the workloads that annotations of Reloader decide about and whose pod
// templates use an object, or may use it.
func (c *Controller) reloadedBy(o api.Ref) []*cachedWorkload {
	return slices.DeleteFunc(c.caches.reloadedIn(o.Namespace), func(h *cachedWorkload) bool {
		last, isKnown := c.uses.of(h.is.Ref, h.Sum)
		full := *h // Objects of the caches are shared.
		full.Uses = last.uses
		return isKnown && !slices.Contains(c.sourcesUsedBy(&full), o.Local())
	})
}

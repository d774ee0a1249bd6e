package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// reconcile makes a workload what it should be, or has itself called again when it may.
func (c *Controller) reconcile(ctx context.Context, ref workload.Ref) error {
	cached, found := c.caches.workload(ref)
	if !found || cached.is.Template == nil || cached.is.Deleting {
		c.forget(ref)
		return nil
	}
	if c.awaitsCache(cached) {
		return nil // The cache will have the object, and queue the workload again.
	}
	h, wait := c.read(cached)
	if wait > 0 {
		c.postpone(ctx, cached, wait)
		return nil
	}
	state := c.planState(h)
	decision := plan.Decide(state)
	if decision.Action == plan.Rest || decision.Held != "" {
		c.reportHeld(ctx, h, state, decision)
	}
	if decision.Action == plan.Rest {
		c.reportBlocked(ctx, h)
		if decision.Held == "" {
			c.pacer.rest(ref, h.Sum)
			return c.sweep(ctx, h)
		}
		return nil
	}
	if wait := c.wait(h, state, decision); wait > 0 {
		klog.FromContext(ctx).V(4).Info("Waiting", logkeys.Workload, h.is.String(), logkeys.Namespace, h.Namespace,
			logkeys.Delay, wait)
		c.workloads.AddAfter(ref, wait)
		return nil
	}
	return c.execute(ctx, h, state, decision)
}

// forget drops what is remembered of a workload that is gone, or that nothing triggers.
func (c *Controller) forget(ref workload.Ref) {
	c.pacer.forget(ref)
	c.progress.forget(ref)
	c.access.forget(ref)
	c.blocked.forget(ref)
	c.reported.Forget(ref)
	c.uses.forget(ref)
	c.attributeBytes.Forget(ref)
	c.attributeBytes.Forget(matching{ref})
	c.attributeBytes.Forget(doubting{ref})
	c.requests.Forget(ref)
	c.cfg.Metrics.held(ref, "")
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, ref)
}

// awaitsCache reports whether the cache still has the version of a workload that was written over.
func (c *Controller) awaitsCache(h *cachedWorkload) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version, ok := c.written[h.is.Ref]; ok && version == h.is.ResourceVersion {
		return true
	}
	delete(c.written, h.is.Ref)
	return false
}

// planState gathers what a decision needs.
func (c *Controller) planState(h *cachedWorkload) plan.State {
	s := plan.State{
		OptedIn: h.OptedIn, Label: h.is.Labels[trigger.RolloutLabel],
		AfterUndo: h.is.Annotations[trigger.AfterUndo], WhileFailing: h.is.Annotations[trigger.WhileFailing],
		Template: h.Config, Broken: h.Broken, Used: map[api.Ref]bool{}, Paused: h.is.Paused, Problem: h.Trouble,
	}
	_, s.Undone = h.is.Annotations[trigger.UndoneAnnotation]
	if s.AfterUndo == "" {
		s.AfterUndo = c.lostWishes(h)[trigger.AfterUndo]
	}
	if s.WhileFailing == "" && !c.cfg.HoldFailing {
		s.WhileFailing = trigger.Roll
	}
	for _, use := range h.Uses {
		s.Used[use.Object] = true
	}
	s.Strays = c.strays(h, s.Used)
	s.Failing = c.trackFailure(h)
	if s.OptedIn && s.Problem == "" {
		s.Wanted, s.Problem = c.wanted(h, s.Strays)
	}
	return s
}

// strays returns the copies of triggers that a template names and its config does not have, and of
// which triggers. Somebody has changed one of the two by hand. Where the template names the
// trigger, or the copy that the config has, too, they are there on purpose.
func (c *Controller) strays(h *cachedWorkload, used map[api.Ref]bool) map[api.Ref]api.Ref {
	strays := map[api.Ref]api.Ref{}
	for o := range used {
		made, exists := c.caches.copied(o.In(h.Namespace))
		if !exists {
			continue
		}
		of, err := copies.SourceOf(made.Annotations)
		_, inConfig := h.Config[of]
		if err != nil || of.Kind != o.Kind || !inConfig && !slices.Contains(h.Triggers, of) {
			continue
		}
		if !used[of] && !used[of.Named(h.Config[of])] {
			strays[o] = of
		}
	}
	return strays
}

// wanted returns the config of a workload by what its triggers are now, or why pods could not run
// with it.
func (c *Controller) wanted(h *cachedWorkload, strays map[api.Ref]api.Ref) (trigger.Config, string) {
	config := trigger.Config{}
	var problems []string
	for _, o := range h.Triggers {
		name, problem := c.wantedVersion(h, o, usesOf(h, o, strays))
		if problem != "" {
			problems = append(problems, problem)
		}
		config[o] = name
	}
	return config, strings.Join(problems, "; ")
}

// usesOf returns the uses of an object in a template, under its own name or that of a copy.
func usesOf(h *cachedWorkload, o api.Ref, strays map[api.Ref]api.Ref) []template.Use {
	var uses []template.Use
	for _, use := range h.Uses {
		stray, isStray := strays[use.Object]
		if use.Object == o || use.Object == o.Named(h.Config[o]) || isStray && stray == o {
			uses = append(uses, use)
		}
	}
	return uses
}

// wantedVersion returns what a config has for a trigger as it is now: the name of its copy if the
// template uses it, and nothing when it does not exist and need not.
func (c *Controller) wantedVersion(h *cachedWorkload, o api.Ref, uses []template.Use) (version, problem string) {
	if o.Kind == api.Secret && !c.cfg.Secrets {
		return "", fmt.Sprintf("%s: the controller runs with --secrets=false", o)
	}
	s, exists := c.caches.source(o.In(h.Namespace))
	switch {
	case exists && s.IsReleased:
		return "", fmt.Sprintf("%s has the annotation %s, so its edits reach pods without a rollout: remove the "+
			"annotation, or %s from %s",
			o, release.Annotation, o, trigger.TriggeredBy)
	case exists && len(uses) == 0:
		return trigger.Uncopied(s.CopyName), "" // No pod could read a copy.
	case exists && s.Problem != "":
		return "", s.Problem
	case !exists && len(uses) == 0 && h.Config[o] != "":
		return h.Config[o], "" // It is gone, and no pod misses it.
	case !exists && len(uses) == 0:
		return "", h.unknownTrigger(o)
	}
	for _, use := range uses {
		if !exists && !use.Optional {
			return "", fmt.Sprintf("%s does not exist, and %s of the pod template needs it", o, use.Field)
		}
		for _, key := range use.Keys {
			if exists && !s.Has(key) {
				return "", fmt.Sprintf("%s has no key %q, and %s of the pod template needs it", o, key, use.Field)
			}
		}
	}
	if !exists {
		return "", ""
	}
	return s.CopyName, ""
}

// wait returns how long an action has to wait for others and for quiet.
func (c *Controller) wait(h *cachedWorkload, s plan.State, d plan.Decision) time.Duration {
	switch {
	case d.Action == plan.RollOut:
		return c.pacer.wait(h.is.Ref, d.Config.String(), h.Sum)
	case d.Action == plan.Repair && s.Template.String() != d.Config.String():
		return c.pacer.turn(h.is.Ref)
	default:
		return 0
	}
}

// past is the log line when an action is done.
func past(a plan.Action) string {
	switch a {
	case plan.RollOut:
		return "Rolled out"
	case plan.Repair:
		return "Repaired"
	case plan.RecordUndo:
		return "Recorded the undo"
	case plan.OptOut:
		return "Opted out"
	case plan.Rest: // The log has no line for it.
	}
	return string(a)
}

// execute does what was decided, by one write to the workload.
func (c *Controller) execute(ctx context.Context, h *cachedWorkload, s plan.State, d plan.Decision) error {
	logger := klog.FromContext(ctx).WithValues(logkeys.Workload, h.is.String(), logkeys.Namespace, h.Namespace)
	if c.cfg.DryRun {
		if c.reported.Replace(h.is.Ref, "would "+string(d.Action)+d.Config.String()) {
			logger.Info("Would "+string(d.Action), logkeys.Config, d.Config.String())
		}
		return nil
	}
	if wait := c.charge(h, d); wait > 0 {
		c.postpone(ctx, h, wait)
		return nil
	}
	w, err := c.newWrite(h, d)
	if err != nil {
		return c.holdBackOrReturn(ctx, h, &heldError{text: err.Error()})
	}
	if err := c.ensureCopies(ctx, h, d); err != nil {
		return c.holdBackOrReturn(ctx, h, err)
	}
	c.access.forget(h.is.Ref)
	version, err := c.send(ctx, h, w)
	if err != nil {
		if !apierrors.IsConflict(err) { // Conflicts are expected.
			c.cfg.Metrics.count(resultFailed)
		}
		isRefused := apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
		err = fmt.Errorf("write %s: %w", h.is.Ref, err)
		if isRefused { // Such as by an admission policy, which only a person can change.
			return c.holdBackOrReturn(ctx, h, err)
		}
		return err
	}
	if version != h.is.ResourceVersion {
		c.mu.Lock()
		c.written[h.is.Ref] = h.is.ResourceVersion
		c.mu.Unlock()
	}
	logger.Info(past(d.Action), logkeys.Config, d.Config.String())
	c.reportWrite(h, s, d)
	if d.Held == "" {
		c.reported.Forget(h.is.Ref)
		c.cfg.Metrics.held(h.is.Ref, "")
		c.pacer.forget(h.is.Ref)
	}
	return nil
}

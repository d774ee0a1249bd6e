package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// The reasons of Events.
const (
	ReasonRolledOut = "ConfigRolledOut" // On the workload and on the sources.
	ReasonRepaired  = "ConfigRepaired"
	ReasonUndone    = "ConfigUndone"
	ReasonHeldBack  = state.ReasonHeldBack
	ReasonOptedOut  = "ConfigOptedOut"
	ReasonCopyGone  = "ConfigCopyGone"
	ReasonPutOff    = "ConfigPutOff"
	ReasonBlocked   = state.ReasonBlocked
)

// retryHeld is how soon it is tried again what others have to allow.
const retryHeld = time.Minute

// reportHeld reports that the controller holds a change back, and why.
func (c *Controller) reportHeld(ctx context.Context, h *cachedWorkload, s plan.State, d plan.Decision) {
	c.reportHeldText(ctx, h, d.Held, heldText(h, s, d.Held))
}

// reportHeldText reports once why the controller holds a change back: by an Event, and in the log,
// which lasts longer.
func (c *Controller) reportHeldText(ctx context.Context, h *cachedWorkload, reason plan.Held, text string) {
	c.cfg.Metrics.held(h.is.Ref, reason)
	if !c.reported.Replace(h.is.Ref, text) {
		return
	}
	c.event(h, notice{corev1.EventTypeWarning, ReasonHeldBack, text})
	klog.FromContext(ctx).Info("The controller holds a change back", logkeys.Workload, h.is.String(), logkeys.Namespace,
		h.Namespace, logkeys.Reason, text)
}

func heldText(h *cachedWorkload, s plan.State, reason plan.Held) string {
	ref := h.is.Ref
	switch reason {
	case plan.HeldByProblem:
		return state.HeldBackPrefix + s.Problem
	case plan.HeldByPause:
		return state.HeldBackPrefix + state.ByPause(ref)
	case plan.HeldByUndo:
		return state.HeldBackPrefix + state.ByUndo(ref)
	case plan.HeldByFailure:
		return state.HeldBackPrefix + state.ByFailure(ref)
	default:
		return ""
	}
}

// holdBackOrReturn reports why a change cannot be made, and queues another try.
func (c *Controller) holdBackOrReturn(ctx context.Context, h *cachedWorkload, err error) error {
	var waiting *heldError
	var putOff *putOffError
	switch {
	case errors.As(err, &putOff):
		c.postpone(ctx, h, putOff.wait)
		return nil
	case errors.As(err, &waiting):
		c.reportHeldText(ctx, h, plan.HeldByProblem, state.HeldBackPrefix+waiting.text)
		c.workloads.AddAfter(h.is.Ref, c.retryAfter(h.is.Ref, waiting)) // No cache has rights and quotas.
		return nil
	case errors.Is(err, errChanged), apierrors.IsNotFound(err):
		c.workloads.AddAfter(h.is.Ref, time.Second) // The cache will have the same soon.
		return nil
	case ctx.Err() == nil:
		c.reportHeldText(ctx, h, plan.HeldByProblem, "Not rolled out for now: "+err.Error())
	}
	return err
}

func (c *Controller) retryAfter(ref workload.Ref, waiting *heldError) time.Duration {
	if waiting.forAccess {
		return c.access.add(ref)
	}
	c.access.forget(ref)
	return retryHeld
}

// reportWrite reports a write by an Event and metrics.
func (c *Controller) reportWrite(h *cachedWorkload, s plan.State, d plan.Decision) {
	switch {
	case d.Action == plan.RecordUndo:
		c.cfg.Metrics.count(resultUndone)
		c.event(h, notice{corev1.EventTypeNormal, ReasonUndone, undoneText(h, s, d)})
	case d.Action == plan.OptOut:
		c.cfg.Metrics.count(resultOptedOut)
		c.event(h, notice{
			corev1.EventTypeNormal, ReasonOptedOut,
			"Nothing triggers it any more: the pod template uses the sources themselves again",
		})
	case s.Template.String() == d.Config.String() && !s.IsPlain():
		c.cfg.Metrics.count(resultUndone)
		c.event(h, notice{
			corev1.EventTypeNormal, ReasonUndone, "Nothing is undone any more: the pod template uses " + changes(nil, d.Config),
		})
	case s.Template.String() == d.Config.String():
		c.cfg.Metrics.count(resultRepaired)
		c.event(h, notice{
			corev1.EventTypeNormal, ReasonRepaired,
			"The pod template named sources again, and was pointed to their copies: " + changes(nil, d.Config),
		})
	default:
		c.reportRollout(h, s, d)
	}
}

func (c *Controller) reportRollout(h *cachedWorkload, s plan.State, d plan.Decision) {
	c.cfg.Metrics.count(resultRolledOut)
	c.event(h, notice{corev1.EventTypeNormal, ReasonRolledOut, "The pod template uses " + changes(s.Template, d.Config)})
	for _, o := range d.Config.Objects() {
		name := d.Config[o]
		source, exists := c.caches.source(o.In(h.Namespace))
		if name == s.Template[o] || !exists {
			continue
		}
		if s.Template[o] != "" { // Otherwise the source is as old as it likes.
			c.cfg.Metrics.rolledOut(time.Since(source.ChangedAt))
		}
		if !c.sourceEvents.take(o.In(h.Namespace), name) || !c.events.Take(h.Namespace) {
			continue
		}
		text := fmt.Sprintf("%s uses this version as %s", h.is.Ref, name)
		if _, isUncopied := d.Config.Uncopied()[o]; isUncopied {
			text = fmt.Sprintf("%s was rolled out because of this version, which its pod template does not use", h.is.Ref)
		}
		about := &corev1.ObjectReference{
			APIVersion: "v1", Kind: string(o.Kind), Namespace: h.Namespace, Name: o.Name, UID: source.UID,
		}
		c.cfg.Events.Event(about, corev1.EventTypeNormal, ReasonRolledOut, text)
	}
}

func undoneText(h *cachedWorkload, s plan.State, d plan.Decision) string {
	text := "The last change was undone: the pod template uses " + changes(nil, d.Config)
	if len(d.Config) == 0 {
		text = "The last change was undone, to a revision that uses the sources themselves"
	}
	if s.AfterUndo == trigger.Pause {
		return fmt.Sprintf("%s. It stays so until: kubectl annotate %s %s-", text, h.is.Ref, trigger.UndoneAnnotation)
	}
	return text + ". It stays so until a source is edited"
}

// unknownTrigger explains that a trigger does not exist and that nothing uses it, mostly a typing
// error, and what to type.
func (h *cachedWorkload) unknownTrigger(o api.Ref) string {
	text := fmt.Sprintf("%s triggers rollouts, but does not exist, and the pod template does not use it", o)
	_, annotation, isWritten := trigger.Wanted(h.is.Annotations)
	listed := annotation
	if !isWritten {
		listed = reloader.ReloadOf(o.Kind)
	}
	used := h.usedSources()
	if len(used) == 0 {
		return fmt.Sprintf("%s; create it, or correct the annotation %s", text, listed)
	}
	meant := nearest(o, used)
	if meant == o {
		return fmt.Sprintf("%s; the template uses %s: create %s, or correct the annotation %s", text, namesOf(used), o,
			listed)
	}
	triggers := slices.Clone(h.Triggers)
	triggers[slices.Index(triggers, o)] = meant
	slices.SortFunc(triggers, trigger.Compare)
	return fmt.Sprintf("%s; did you mean %s? kubectl annotate --overwrite %s %s=%s", text, meant, h.is.Ref, annotation,
		trigger.Format(slices.Compact(triggers)))
}

// usedSources returns the sources that the pod template uses, also by their copies, in order.
func (h *cachedWorkload) usedSources() []api.Ref {
	sources := map[api.Ref]api.Ref{}
	for source, copied := range h.Config.Copies() {
		sources[source.Named(copied)] = source
	}
	var used []api.Ref
	for _, use := range h.Uses {
		if source, isCopy := sources[use.Object]; isCopy {
			used = append(used, source)
		} else {
			used = append(used, use.Object)
		}
	}
	slices.SortFunc(used, trigger.Compare)
	return slices.Compact(used)
}

// nearest returns the object that was probably meant, of the same kind rather than of the other, or
// o itself.
func nearest(o api.Ref, used []api.Ref) api.Ref {
	var same, names []string
	for _, u := range used {
		names = append(names, u.Name)
		if u.Kind == o.Kind {
			same = append(same, u.Name)
		}
	}
	if name := api.Closest(o.Name, same); name != "" {
		return o.Named(name)
	}
	name := api.Closest(o.Name, names)
	if at := slices.IndexFunc(used, func(u api.Ref) bool { return u.Name == name }); at >= 0 {
		return used[at]
	}
	if len(used) == 1 {
		return used[0]
	}
	return o
}

// namesOf names a few of the objects.
func namesOf(objects []api.Ref) string {
	const most = 5
	text := strings.ReplaceAll(trigger.Format(objects[:min(most, len(objects))]), ",", ", ")
	if more := len(objects) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// reportNameTaken reports to the workloads that need a copy that another object has its name.
func (c *Controller) reportNameTaken(o api.Ref, err error) {
	if !c.reportedGone.Replace(o, err.Error()) {
		return
	}
	for _, h := range c.caches.workloadsUsing(o) {
		c.event(h, notice{corev1.EventTypeWarning, ReasonCopyGone, fmt.Sprintf("The pods of %s use %v", h.is.Ref, err)})
	}
}

// reportGone reports a copy that is gone for good to the workloads whose pods use it, or would use
// it after an undo.
func (c *Controller) reportGone(o api.Ref) {
	if !c.reportedGone.Replace(o, "gone") {
		return
	}
	told := map[types.UID]bool{}
	for _, h := range c.caches.workloadsUsing(o) {
		told[h.UID] = true
		c.event(h, notice{
			corev1.EventTypeWarning, ReasonCopyGone,
			fmt.Sprintf("%s was deleted, and its source has another content now: new pods cannot start. "+
				"To use the source as it is now, edit it; to go back: kubectl rollout undo %s", o.Local(), h.is.Ref),
		})
	}
	for _, r := range c.caches.revisionsUsing(o) {
		h, exists := c.caches.workloadOf(r)
		if !exists || told[h.UID] {
			continue
		}
		told[h.UID] = true
		c.event(h, notice{
			corev1.EventTypeWarning, ReasonCopyGone,
			fmt.Sprintf("%s was deleted, and its source has another content now: "+
				"pods of %s %s, which uses it, cannot start. It is made again when the source has that content again", o.Local(),
				r.is.Kind, r.Name),
		})
	}
}

// notice is what an Event reports.
type notice struct{ kind, reason, text string }

// event writes an Event on the workload, unless its namespace has used up its share.
func (c *Controller) event(h *cachedWorkload, n notice) {
	if !c.events.Take(h.Namespace) {
		return // The log and metrics have it too.
	}
	about := &corev1.ObjectReference{
		APIVersion: "apps/v1", Kind: string(h.is.Kind), Namespace: h.Namespace, Name: h.is.Name, UID: h.is.UID,
	}
	c.cfg.Events.Event(about, n.kind, n.reason, note(n.text))
}

// longestNote is how long the note of an Event may be, in bytes.
const longestNote = 1024

// note makes one line of a text, and no more than the API server takes.
func note(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
	if len(text) <= longestNote {
		return text
	}
	return strings.ToValidUTF8(text[:longestNote-3], "") + "..."
}

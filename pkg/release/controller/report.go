package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// The reasons of Events, on the released object.
const (
	// ReasonMistake: the annotation cannot be understood, or the object cannot be released.
	ReasonMistake = "ReleaseMistake"
	// ReasonBlocked: another object of the group cannot be released.
	ReasonBlocked = "ReleaseBlocked"
	// ReasonRefused: an edit breaks a rule, and no pod gets it.
	ReasonRefused = "ReleaseRefused"
	// ReasonUnwritten: the API server refuses what the stable copy is to have.
	ReasonUnwritten = "ReleaseStuck"
	// ReasonNotKept: the API server refuses to keep what the object had before.
	ReasonNotKept = "ReleaseNotKept"
	// ReasonWaiting: it is not known that pods have the edit in their files.
	ReasonWaiting = "ReleaseWaiting"
	// ReasonExposed: a step has begun.
	ReasonExposed = "ReleaseExposed"
	// ReasonPromoted: all pods get the edit.
	ReasonPromoted = "ReleasePromoted"
	// ReasonReverted: the edit was taken back from all pods.
	ReasonReverted = "ReleaseReverted"
	// ReasonShared: pods have an edit together, because they share their files.
	ReasonShared = "ReleaseShared"
	// ReasonTakenBack: drivers report that no files have the edit any more.
	ReasonTakenBack = "ReleaseTakenBack"
	// ReasonStillShown: it is not known that all pods have lost an edit that was taken back.
	ReasonStillShown = "ReleaseStillShown"
	// ReasonFrozen: no more pods get the edit.
	ReasonFrozen = "ReleaseFrozen"
)

// reports remembers what was reported last about each object, so that it is reported once.
type reports struct {
	last *workloop.Reported[about]

	mu   sync.Mutex // Guards the fields below.
	gone map[api.Ref]time.Time
	// wrong is since when objects cannot be released.
	wrong map[api.Ref]time.Time
}

// about is what a report is about.
type about struct {
	ref    api.Ref
	reason string
}

func newReports() *reports {
	return &reports{last: workloop.NewReported[about](), gone: map[api.Ref]time.Time{}, wrong: map[api.Ref]time.Time{}}
}

// replace is [workloop.Reported.Replace] for one reason.
func (r *reports) replace(o api.Ref, reason, text string) bool {
	return r.last.Replace(about{o, reason}, text)
}

func (r *reports) forgetAll(o api.Ref) {
	for _, reason := range []string{
		ReasonMistake, ReasonRefused, ReasonBlocked, ReasonWaiting, ReasonUnwritten, ReasonNotKept, ReasonShared,
		ReasonTakenBack, ReasonStillShown,
	} {
		r.replace(o, reason, "")
	}
	r.markRight(o)
}

// goneFor returns for how long an object has been gone, as far as this process knows.
func (r *reports) goneFor(o api.Ref, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, found := r.gone[o]
	if !found {
		r.gone[o] = now
		return 0
	}
	if now.Sub(since) >= goneTime {
		delete(r.gone, o)
	}
	return now.Sub(since)
}

// markFound notes that an object exists.
func (r *reports) markFound(o api.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gone, o)
}

// wrongFor returns for how long an object could not be released, as far as this process knows.
func (r *reports) wrongFor(o api.Ref, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, found := r.wrong[o]
	if !found {
		r.wrong[o] = now
		return 0
	}
	return now.Sub(since)
}

// markRight notes that an object can be released, or is gone.
func (r *reports) markRight(o api.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.wrong, o)
}

// reportBlocked reports to the members of a group that can be released which of the others keeps
// them waiting.
func (c *Controller) reportBlocked(ctx context.Context, members []*member) {
	text := ""
	if i := slices.IndexFunc(members, (*member).isWrong); i >= 0 {
		text = fmt.Sprintf("No edit of the group reaches more pods while %s cannot be released: see its Events. "+
			"Correct its annotation, or take it out of the group. Unless it is part of a release under way, the others "+
			"go on after %s",
			members[i].name(), blockedTime)
	}
	for _, m := range members {
		if !m.isWrong() && c.reports.replace(m.ref(), ReasonBlocked, text) {
			c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonBlocked, text})
		}
	}
}

// reportMistakes reports members that cannot be released.
func (c *Controller) reportMistakes(ctx context.Context, members []*member) {
	for _, m := range members {
		c.reports.markFound(m.ref())
		text := m.problem
		for _, mistake := range m.mistakes {
			text += mistake.String() + "; "
		}
		if text != "" {
			text = "No edit reaches more pods until this is corrected: " + text
		}
		if c.reports.replace(m.ref(), ReasonMistake, text) {
			c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonMistake, text})
		}
	}
}

// reportRefused reports an object whose first stable copy breaks a rule.
func (c *Controller) reportRefused(ctx context.Context, m *member, refused string) {
	text := "Pods have this content, which breaks a rule of the release annotation: " + refused
	if c.reports.replace(m.ref(), ReasonRefused, text) {
		c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonRefused, text})
	}
}

// reportNoCopy reports an object whose stable copy the API server refuses. Anything that may pass
// is logged only.
func (c *Controller) reportNoCopy(ctx context.Context, m *member, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return
	}
	text := "Edits reach all pods at once until this is corrected: " + err.Error()
	if c.reports.replace(m.ref(), ReasonMistake, text) {
		c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonMistake, text})
	}
}

// reportUnwritten reports a stable copy that the API server refuses to change: a policy, a quota,
// or somebody has made it immutable. Anything that may pass is logged only.
func (c *Controller) reportUnwritten(ctx context.Context, m *member, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return
	}
	text := "The release does not go on, because the API server refuses to change the stable copy. The controller " +
		"goes on trying: " + err.Error()
	if c.reports.replace(m.ref(), ReasonUnwritten, text) {
		c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonUnwritten, text})
	}
}

// reportShared reports pods that share their files since before the object was released.
func (c *Controller) reportShared(ctx context.Context, members []*member, state plan.Unit) {
	count := map[string]int{}
	for _, p := range plan.Running(state) {
		if p.SharesWith != "" {
			count[p.SharesWith]++
		}
	}
	text := ""
	if len(count) > 0 {
		text = fmt.Sprintf("Pods share their files since before the object was released, so an edit reaches up to %d pods "+
			"at a time. To change that, restart their workloads once: kubectl rollout restart",
			slices.Max(slices.Collect(maps.Values(count))))
	}
	for _, m := range members {
		if c.reports.replace(m.ref(), ReasonShared, text) {
			c.event(ctx, m, notice{corev1.EventTypeNormal, ReasonShared, text})
		}
	}
}

// report reports what was written. after is how the unit is then.
func (c *Controller) report(ctx context.Context, m *member, d plan.Decision, e release.Exposure, after plan.Unit) {
	c.reports.replace(m.ref(), ReasonRefused, "")
	steps, shown, all := m.settings.Steps, len(plan.Exposed(after)), len(plan.Running(after))
	switch {
	case d.Action == plan.Promote:
		c.metrics.finished.WithLabelValues(release.Promoted).Inc()
		c.event(ctx, m, notice{corev1.EventTypeNormal, ReasonPromoted, "All pods get the edit."})
	case d.Action == plan.Clear:
	case e.State == release.Waiting: // See reportWaiting.
	case e.State == release.Refused:
		c.metrics.finished.WithLabelValues(string(e.State)).Inc()
		c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonRefused, "No pod gets the edit: " + e.Reason})
	case e.State == release.Reverted:
		c.metrics.finished.WithLabelValues(string(e.State)).Inc()
		c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonReverted, "The edit is taken back from all pods: " + e.Reason})
	case e.State == release.Frozen:
		c.metrics.finished.WithLabelValues(string(e.State)).Inc()
		c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonFrozen, "No more pods get the edit: " + e.Reason})
	case e.Step <= len(steps):
		c.event(ctx, m, notice{corev1.EventTypeNormal, ReasonExposed, fmt.Sprintf(
			"Step %d of %d (%s): the edit is shown to %d of %d pods.", e.Step, len(steps), steps[e.Step-1], shown, all)})
	default:
		text := fmt.Sprintf("The edit is shown to all %d pods, before it is promoted.", all)
		if m.settings.Watch > 0 {
			text = fmt.Sprintf("The edit is shown to all %d pods, for %s before it is promoted.", all, m.settings.Watch)
		}
		c.event(ctx, m, notice{corev1.EventTypeNormal, ReasonExposed, text})
	}
}

// notice is what an Event reports.
type notice struct{ kind, reason, text string }

// event writes an Event on the object, within the allowance of its namespace, and the log, which
// lasts longer.
func (c *Controller) event(ctx context.Context, m *member, n notice) {
	const most = 1000 // Of an Event's note.
	text := n.text
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	klog.FromContext(ctx).Info("A release", logkeys.Ref, m.ref(), logkeys.Reason, n.reason, logkeys.Note, text)
	if c.cfg.DryRun || !c.events.Take(m.ref().Namespace) {
		return
	}
	c.cfg.Events.Event(&corev1.ObjectReference{
		Kind: string(m.ref().Kind), APIVersion: "v1", Namespace: m.ref().Namespace, Name: m.ref().Name, UID: m.source.UID,
		ResourceVersion: m.source.Version,
	}, n.kind, n.reason, text)
}

// metrics are about releases.
type metrics struct {
	finished *prometheus.CounterVec

	mu     sync.Mutex // Guards states.
	states map[unit]release.State
}

func newMetrics() *metrics {
	return &metrics{
		states: map[unit]release.State{},
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liveconfig_controller_releases_finished_total",
			Help: "Releases of edits that this process has ended, by outcome: Promoted, Refused, Reverted or Frozen.",
		}, []string{"outcome"}),
	}
}

func (m *metrics) register(registry prometheus.Registerer) error {
	errs := []error{registry.Register(m.finished)}
	for _, outcome := range []string{
		release.Promoted, string(release.Refused), string(release.Reverted), string(release.Frozen),
	} {
		m.finished.WithLabelValues(outcome)
	}
	for _, state := range []release.State{
		release.Progressing, release.Waiting, release.Refused, release.Reverted, release.Frozen,
	} {
		errs = append(errs, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "liveconfig_controller_releases", ConstLabels: prometheus.Labels{"state": string(state)},
			Help: "Edits of released objects and groups that not all pods have, by state.",
		}, func() float64 { return m.count(state) })))
	}
	return errors.Join(errs...)
}

func (m *metrics) count(state release.State) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.states {
		if s == state {
			n++
		}
	}
	return float64(n)
}

// note stores the state of a unit.
func (m *metrics) note(u unit, members []*member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.states, u)
	for _, one := range members {
		if e := one.copy.Exposure(); one.source.Digest != one.copy.Digest && e.Digest == one.source.Digest {
			m.states[u] = e.State
		}
	}
}

func (m *metrics) forget(u unit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.states, u)
}

package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// errChanged is why an action is not done: the object is not what the decision was about.
var errChanged = errors.New("the object has changed meanwhile")

// act does what was decided. It is not done while a check is under way.
func (c *Controller) act(
	ctx context.Context, u unit, members []*member, state plan.Unit, d plan.Decision,
) (isDone bool, err error) {
	if d.Action == plan.Check {
		refused, isChecked, err := c.checked(ctx, u, members, d)
		if err != nil || !isChecked {
			return false, err
		}
		d = checkedDecision(d, refused)
	}
	if d.Action == plan.Expose {
		c.seen.look(u, shown(state, d))
	}
	if d.Action == plan.Promote {
		if err := c.keepAhead(ctx, members, d.Names); err != nil {
			return false, err
		}
	}
	after := shown(state, d)
	for _, m := range members {
		if !slices.Contains(d.Names, m.name()) {
			continue
		}
		if err := c.write(ctx, m, d, after, partnersOf(m.others(members))); err != nil {
			c.reportUnwritten(ctx, m, err)
			return false, err
		}
		c.reports.replace(m.ref(), ReasonUnwritten, "")
	}
	return true, nil
}

// checkedDecision returns what follows from a check: refused is why the candidates are refused, if
// they are.
func checkedDecision(d plan.Decision, refused string) plan.Decision {
	switch {
	case refused != "":
		d.Exposure = release.Exposure{
			With: d.Exposure.With, State: release.Refused, Since: time.Now(), Reason: refused, Rules: d.Exposure.Rules,
		}
		d.Action = plan.Expose
	case d.Exposure.State == "": // There are no steps.
		d.Action = plan.Promote
	default:
		d.Action = plan.Expose
	}
	return d
}

// shown returns the state as it is after an exposure.
func shown(state plan.Unit, d plan.Decision) plan.Unit {
	state.Objects = slices.Clone(state.Objects)
	for i := range state.Objects {
		if o := &state.Objects[i]; slices.Contains(d.Names, o.Name) {
			o.Exposure = d.Exposure
			o.Exposure.Digest = o.Candidate
		}
	}
	return state
}

// candidate reads the content of a member, which must be what was decided about.
func (c *Controller) candidate(ctx context.Context, m *member) (stable.Object, error) {
	read, err := c.read(ctx, m.ref())
	if err == nil && (read.UID != m.source.UID || read.Version != m.source.Version) {
		err = conflict(m.ref())
	}
	return read, err
}

func conflict(o api.Ref) error {
	return apierrors.NewConflict(corev1.Resource(o.Kind.Resource()+"s"), o.Name, errChanged)
}

// write writes the stable copy of a member. after is how the unit is then. The partners are those
// of members that are not released together with it.
func (c *Controller) write(
	ctx context.Context, m *member, d plan.Decision, after plan.Unit, partners map[string]release.Partners,
) error {
	var annotations map[string]string
	var source *stable.Object
	e, before := d.Exposure, m.copy.Exposure()
	e.Digest = m.source.Digest
	switch d.Action {
	case plan.Promote:
		read, err := c.candidate(ctx, m)
		if err != nil {
			return err
		}
		if !m.copy.CanBecome(read) {
			return c.replace(ctx, m, read)
		}
		source = &read
		reason := "" // A promotion that a person has begun has one.
		if before.Digest == e.Digest && before.State == release.Promoting {
			reason = before.Reason
		}
		annotations = stable.AnnotatePromoted(m.copy.Annotations, m.source.Digest, time.Now(), reason)
		annotations = stable.AgreeWith(annotations, m.name(), partners)
	case plan.Clear:
		annotations = stable.Annotate(m.copy.Annotations, release.Exposure{})
	case plan.Expose, plan.Check, plan.Rest, plan.Ask, plan.Read:
		annotations = stable.Annotate(m.copy.Annotations, e)
	}
	if d.Action == plan.Expose && before.String() == e.String() {
		return nil // Of a group, of which others are a write behind.
	}
	c.requests.Spend(m.ref().Namespace)
	written, err := c.writer.Write(ctx, *m.copy, annotations, source)
	if err != nil {
		return err
	}
	c.known.set(written)
	c.noted.Delete(m.copy.Ref)
	if d.Action == plan.Expose && before.Digest == e.Digest && before.State == e.State && before.Since.Equal(e.Since) {
		return nil // It goes on as before, by other rules.
	}
	c.report(ctx, m, d, e, after)
	return nil
}

// replace deletes a copy that cannot get the content of its source. The next look creates it again,
// from what is kept.
func (c *Controller) replace(ctx context.Context, m *member, content stable.Object) error {
	if err := c.keep(ctx, m, content, nil); err != nil && !isRefusal(err) {
		return err
	}
	return c.delete(ctx, *m.copy)
}

// createCopies creates the copies of members that have none: from what a copy had that is gone, or
// else from what they have now, which is what pods have. If it breaks a rule, an Event reports
// that.
func (c *Controller) createCopies(ctx context.Context, u unit, members []*member) error {
	for _, m := range members {
		if m.copy != nil || c.cfg.DryRun {
			continue
		}
		if err := c.create(ctx, m, members); err != nil {
			c.reportNoCopy(ctx, m, err)
			return err
		}
		c.checks.begin(ctx, task{
			unit: u, do: func(ctx context.Context) (string, error) { return "", c.checkCopy(ctx, m, m.copy.Ref) },
		})
	}
	return nil
}

func (c *Controller) create(ctx context.Context, m *member, members []*member) error {
	content, err := c.candidate(ctx, m)
	if err != nil {
		return err
	}
	content, annotations, err := c.restored(ctx, m, content, members)
	if err != nil {
		return err
	}
	c.requests.Spend(m.ref().Namespace)
	created, err := c.writer.Create(ctx, content, stable.AgreeWith(annotations, m.name(), partnersOf(members)))
	if err != nil {
		return err
	}
	c.known.set(created)
	created = created.WithoutData()
	m.copy = &created
	return nil
}

func (c *Controller) delete(ctx context.Context, o stable.Object) error {
	c.requests.Spend(o.Ref.Namespace)
	if err := c.writer.Delete(ctx, o); err != nil {
		return err
	}
	c.known.forget(o.Ref)
	return nil
}

// clean deletes the stable copy of an object that is not released any more, and ends the watch of
// pods in a namespace without releases.
func (c *Controller) clean(ctx context.Context, u unit) (after time.Duration, err error) {
	if len(c.objects.released(byNamespace, u.namespace)) == 0 {
		c.pods.end(u.namespace)
	}
	c.pods.forget(u)
	if u.group != "" {
		return 0, nil
	}
	found := c.objects.get(u.alone)
	if _, isReleased := annotationOf(found); isReleased {
		return 0, nil // It is one of a group.
	}
	c.reports.forgetAll(u.alone)
	c.settings.forget(u.alone)
	copied := release.StableOf(u.alone)
	cached := c.objects.get(copied)
	if found == nil || cached == nil {
		c.known.forget(u.alone)
	}
	if cached == nil {
		c.known.unreleased(u.alone)
		c.reports.markFound(u.alone)
		c.known.forget(copied)
	}
	if c.cfg.DryRun || !c.objects.hasLabel(copied, release.StableLabel, u.alone) &&
		!c.objects.hasLabel(release.FormerOf(u.alone), release.FormerLabel, u.alone) {
		return 0, nil
	}
	source, err := c.current(ctx, u.alone)
	if err != nil || source != nil && source.IsReleased {
		return 0, err // It is one of a group, or about to be seen.
	}
	if source == nil {
		if rest := c.reports.goneFor(u.alone, time.Now()); rest < goneTime {
			return goneTime - rest, nil
		}
	}
	// Former contents go first: no copy may be made from them later, when pods have newer ones.
	if err := c.forgetFormer(ctx, u.alone); err != nil {
		return 0, err
	}
	old, err := c.current(ctx, copied)
	if err != nil || old == nil || !old.IsCopyOf(u.alone) {
		return 0, err
	}
	c.known.unreleased(u.alone)
	return 0, c.delete(ctx, *old)
}

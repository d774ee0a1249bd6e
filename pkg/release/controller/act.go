package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

// errChanged is why an action is not done: the object is not what the decision was about.
var errChanged = errors.New("the object has changed meanwhile")

// withCopy returns the members that have a stable copy.
func withCopy(members []*member) []*member {
	return slices.DeleteFunc(members, func(m *member) bool { return m.copy == nil })
}

// act does what was decided.
func (c *Controller) act(ctx context.Context, u unit, members []*member, state plan.Unit, d plan.Decision) error {
	if d.Action == plan.Check {
		refused, err := c.check(ctx, members)
		if err != nil {
			return err
		}
		switch {
		case refused != "":
			d.Exposure = release.Exposure{With: d.Exposure.With, State: release.Refused, Since: time.Now(), Reason: refused, Rules: d.Exposure.Rules}
			d.Action = plan.Expose
		case d.Exposure.State == "": // There are no steps.
			d.Action = plan.Promote
		default:
			d.Exposure.Rules, d.Action = "", plan.Expose
		}
	}
	if d.Action == plan.Expose {
		c.seen.look(u, shown(state, d))
	}
	for _, m := range members {
		if !slices.Contains(d.Names, m.name()) {
			continue
		}
		if err := c.write(ctx, m, d); err != nil {
			return err
		}
	}
	return nil
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

// check returns why candidates are refused; empty for those that are not.
func (c *Controller) check(ctx context.Context, members []*member) (refused string, err error) {
	for _, m := range members {
		if m.source.digest == m.copy.digest {
			continue
		}
		content, err := c.candidate(ctx, m)
		if err != nil {
			return "", err
		}
		if refused, err := c.checkContent(ctx, m, content); refused != "" || err != nil {
			return refused, err
		}
	}
	return "", nil
}

// checkContent returns which rules a content breaks; empty for none.
func (c *Controller) checkContent(ctx context.Context, m *member, content contents) (refused string, err error) {
	problems, err := c.cfg.Check(ctx, m.settings.Rules, validation.Content{Data: content.all(), IsSecret: m.ref.Kind == api.Secret, Now: time.Now()})
	if limit, ok := errors.AsType[*isolated.LimitError](err); ok {
		return m.name() + ": " + limit.Error(), nil
	}
	if err != nil || len(problems) == 0 {
		return "", err
	}
	const most = 5
	texts := make([]string, 0, most)
	for _, p := range problems[:min(len(problems), most)] {
		texts = append(texts, p.String())
	}
	return m.name() + ": " + strings.Join(texts, "; "), nil
}

// candidate reads the content of a member, which must be what was decided about.
func (c *Controller) candidate(ctx context.Context, m *member) (contents, error) {
	content, err := c.read(ctx, m.ref)
	if err != nil {
		return contents{}, err
	}
	if content.uid != m.source.uid || content.version != m.source.version {
		return contents{}, conflict(m.ref)
	}
	return content, nil
}

func conflict(o object) error {
	return apierrors.NewConflict(corev1.Resource(o.Kind.Resource()+"s"), o.Name, errChanged)
}

// write writes the stable copy of a member.
func (c *Controller) write(ctx context.Context, m *member, d plan.Decision) error {
	annotations := maps.Clone(m.copy.annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	e := d.Exposure
	e.Digest = m.source.digest
	var content *contents
	switch d.Action {
	case plan.Promote:
		read, err := c.candidate(ctx, m)
		if err != nil {
			return err
		}
		if m.ref.Kind == api.Secret && read.secretType != m.copy.secretType {
			return c.replaceCopy(ctx, m) // The type of a Secret cannot be changed.
		}
		content = &read
		delete(annotations, release.ExposureAnnotation)
		annotations[release.HistoryAnnotation] = release.AddEntry(annotations[release.HistoryAnnotation],
			release.Entry{Digest: m.source.digest, Outcome: release.Promoted, At: time.Now().UTC().Truncate(time.Second)})
	case plan.Clear:
		delete(annotations, release.ExposureAnnotation)
	case plan.Expose, plan.Check, plan.Rest:
		annotations[release.ExposureAnnotation] = e.String()
		if e.State.IsFinal() {
			annotations[release.HistoryAnnotation] = release.AddEntry(annotations[release.HistoryAnnotation],
				release.Entry{Digest: e.Digest, Outcome: string(e.State), At: e.Since.UTC().Truncate(time.Second), Reason: e.Reason})
		}
	}
	if err := c.patch(ctx, m, annotations, content); err != nil {
		return err
	}
	c.report(ctx, m, d, e)
	return nil
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch writes the annotations of a stable copy and, if it is not nil, its content, over the version
// that the decision was about.
func (c *Controller) patch(ctx context.Context, m *member, annotations map[string]string, content *contents) error {
	patch := []operation{
		{Op: "add", Path: "/metadata/resourceVersion", Value: m.copy.version},
		{Op: "add", Path: "/metadata/annotations", Value: annotations},
	}
	if content != nil && m.ref.Kind == api.ConfigMap {
		patch = append(patch, operation{Op: "add", Path: "/data", Value: orEmpty(content.data)},
			operation{Op: "add", Path: "/binaryData", Value: orEmpty(content.binaryData)})
	} else if content != nil {
		patch = append(patch, operation{Op: "add", Path: "/data", Value: orEmpty(content.binaryData)})
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("write the stable copy of %s: %w", m.ref, err)
	}
	name, options := m.ref.Name+release.Suffix, metav1.PatchOptions{FieldManager: FieldManager}
	var written contents
	if m.ref.Kind == api.Secret {
		s, err := c.cfg.Client.CoreV1().Secrets(m.ref.Namespace).Patch(ctx, name, types.JSONPatchType, text, options)
		if err != nil {
			return fmt.Errorf("write the stable copy of %s: %w", m.ref, err)
		}
		written = contents{binaryData: s.Data, known: known{secretType: s.Type}}
		written.fill(&s.ObjectMeta)
	} else {
		s, err := c.cfg.Client.CoreV1().ConfigMaps(m.ref.Namespace).Patch(ctx, name, types.JSONPatchType, text, options)
		if err != nil {
			return fmt.Errorf("write the stable copy of %s: %w", m.ref, err)
		}
		written = contents{data: s.Data, binaryData: s.BinaryData}
		written.fill(&s.ObjectMeta)
	}
	c.known.set(release.StableOf(m.ref), written.known)
	return nil
}

// orEmpty returns a map that JSON writes: an omitted value would be no operation.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// createCopies creates the copies of members that have none, from what they have now. A content that
// breaks a rule becomes no copy.
func (c *Controller) createCopies(ctx context.Context, members []*member) error {
	for _, m := range members {
		if m.copy != nil {
			continue
		}
		content, err := c.candidate(ctx, m)
		if err != nil {
			return err
		}
		refused, err := c.checkContent(ctx, m, content)
		switch {
		case err != nil:
			return err
		case refused != "":
			c.reportRefused(ctx, m, refused)
			continue
		case c.cfg.DryRun:
			continue
		}
		if err := c.create(ctx, m, content); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) create(ctx context.Context, m *member, content contents) error {
	meta := metav1.ObjectMeta{
		Namespace: m.ref.Namespace, Name: m.ref.Name + release.Suffix,
		Labels: map[string]string{release.StableLabel: release.LabelOf(m.ref.Name)},
	}
	options := metav1.CreateOptions{FieldManager: FieldManager}
	var err error
	if m.ref.Kind == api.Secret {
		s := &corev1.Secret{ObjectMeta: meta, Type: content.secretType, Data: content.binaryData}
		_, err = c.cfg.Client.CoreV1().Secrets(meta.Namespace).Create(ctx, s, options)
	} else {
		s := &corev1.ConfigMap{ObjectMeta: meta, Data: content.data, BinaryData: content.binaryData}
		_, err = c.cfg.Client.CoreV1().ConfigMaps(meta.Namespace).Create(ctx, s, options)
	}
	if err != nil {
		return fmt.Errorf("create the stable copy of %s: %w", m.ref, err)
	}
	if created, err := c.current(ctx, release.StableOf(m.ref)); err == nil {
		m.copy = created
	}
	return nil
}

// replaceCopy deletes a copy that cannot be changed. The next look creates it again.
func (c *Controller) replaceCopy(ctx context.Context, m *member) error {
	return c.deleteCopy(ctx, release.StableOf(m.ref), *m.copy)
}

func (c *Controller) deleteCopy(ctx context.Context, o object, k known) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &k.uid, ResourceVersion: &k.version}}
	var err error
	if o.Kind == api.Secret {
		err = c.cfg.Client.CoreV1().Secrets(o.Namespace).Delete(ctx, o.Name, options)
	} else {
		err = c.cfg.Client.CoreV1().ConfigMaps(o.Namespace).Delete(ctx, o.Name, options)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", o, err)
	}
	c.known.forget(o)
	return nil
}

// clean deletes the stable copy of an object that is not released any more, and ends the watch of pods
// in a namespace without releases.
func (c *Controller) clean(ctx context.Context, u unit) (after time.Duration, err error) {
	if len(c.objects.released(byNamespace, u.namespace)) == 0 {
		c.pods.end(u.namespace)
	}
	c.pods.forget(u)
	if u.group != "" {
		return 0, nil
	}
	c.reports.forget(u.alone)
	copied := release.StableOf(u.alone)
	cached := c.objects.get(copied)
	if cached == nil || cached.Labels[release.StableLabel] != release.LabelOf(u.alone.Name) || c.cfg.DryRun {
		return 0, nil
	}
	source, err := c.current(ctx, u.alone)
	if err != nil || source != nil && source.isReleased {
		return 0, err // It is one of a group, or about to be seen.
	}
	if source == nil {
		if rest := c.reports.goneFor(u.alone, time.Now()); rest < goneTime {
			return goneTime - rest, nil
		}
	}
	copy, err := c.current(ctx, copied)
	if err != nil || copy == nil || copy.label == "" {
		return 0, err
	}
	return 0, c.deleteCopy(ctx, copied, *copy)
}

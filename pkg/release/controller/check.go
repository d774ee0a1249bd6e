package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

// checked returns why the candidates of a unit are refused, once they are checked; empty for no
// reason. A check that an earlier controller began, and did not end, counts as refused: it may have
// ended that controller.
func (c *Controller) checked(
	ctx context.Context, u unit, members []*member, d plan.Decision,
) (refused string, isChecked bool, err error) {
	for _, m := range members {
		if a := m.copy.Attempt(); a.By != c.run && a.IsOf(m.source.Digest, d.Exposure.Rules) {
			return unended(m), true, nil
		}
	}
	return c.checks.result(ctx, c.taskOf(u, members, d.Exposure.Rules))
}

// unended is why a candidate is refused whose check an earlier controller has not ended.
func unended(m *member) string {
	return fmt.Sprintf("%s: the check of this edit did not end: the controller that began it at %s was killed meanwhile; "+
		"edit the object or its annotation, or use: kubectl liveconfig release promote %[1]s -n %[3]s",
		m.name(), m.copy.Attempt().Since.UTC().Format(time.RFC3339), m.ref().Namespace)
}

// taskOf returns the check of the candidates of a unit. A note of the check changes the version of
// a copy, so the task stands for what else is in the copies.
func (c *Controller) taskOf(u unit, members []*member, rules string) task {
	var of strings.Builder
	for _, m := range members {
		of.WriteString(strings.Join([]string{
			m.name(), string(m.source.UID), m.source.Version, m.copy.Digest, m.copy.Exposure().String(),
		}, " ") + "\n")
	}
	return task{
		unit: u, of: of.String(), done: c.queue.Add,
		do: func(ctx context.Context) (string, error) { return c.check(ctx, members, rules) },
	}
}

// check returns why candidates are refused; empty for those that are not.
func (c *Controller) check(ctx context.Context, members []*member, rules string) (refused string, err error) {
	for _, m := range members {
		if m.source.Digest == m.copy.Digest || len(m.settings.Rules) == 0 {
			continue
		}
		content, err := c.candidate(ctx, m)
		if err != nil {
			return "", err
		}
		err = c.note(ctx, m, rules)
		if err == nil {
			refused, err = c.checkContent(ctx, m, content)
		}
		if err != nil {
			c.removeNote(ctx, m.copy.Ref) // It is not the edit that failed, or the controller stops.
		}
		if refused != "" || err != nil {
			return refused, err
		}
	}
	return "", nil
}

// note notes in the copy of a member that its candidate is being checked.
func (c *Controller) note(ctx context.Context, m *member, rules string) error {
	c.noted.Store(m.copy.Ref, true) // Also if the answer of the API server is lost.
	a := release.Attempt{Digest: m.source.Digest, Rules: rules, By: c.run, Since: time.Now().UTC().Truncate(time.Second)}
	return c.annotate(ctx, m, stable.AnnotateAttempt(m.copy.Annotations, a))
}

// noteTime is how long the note of a check may take to remove when the controller stops.
const noteTime = 5 * time.Second

// removeNotes removes the notes of checks of which nothing has followed, before the controller
// stops: the next one checks those edits.
func (c *Controller) removeNotes(ctx context.Context) {
	c.noted.Range(func(key, _ any) bool {
		if ref, ok := key.(api.Ref); ok {
			c.removeNote(ctx, ref)
		}
		return true
	})
}

// removeNote removes the note of a check that is not to count from a copy, also when ctx has ended.
func (c *Controller) removeNote(ctx context.Context, ref api.Ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	const attempts = 3
	var err error
	for range attempts {
		if err = c.tryRemoveNote(ctx, ref); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "The note of a check was not removed: another controller will refuse the edit",
			logkeys.Ref, ref)
		return
	}
	c.noted.Delete(ref)
}

func (c *Controller) tryRemoveNote(ctx context.Context, ref api.Ref) error {
	read, err := c.read(ctx, ref)
	if err != nil || read.Attempt().By != c.run {
		return err // The result of the check was written, or another process is at work.
	}
	read = read.WithoutData()
	return c.annotate(ctx, &member{copy: &read}, stable.WithoutAttempt(read.Annotations))
}

// annotate writes the annotations of a member's copy.
func (c *Controller) annotate(ctx context.Context, m *member, annotations map[string]string) error {
	written, err := c.writer.Write(ctx, *m.copy, annotations, nil)
	if err != nil {
		return err
	}
	c.known.set(written)
	written = written.WithoutData()
	m.copy = &written
	return nil
}

// dropNotes removes notes of checks that are over: of another content than the object has now, or
// of one that all pods have. Else a later edit that is equal would be refused.
func (c *Controller) dropNotes(ctx context.Context, members []*member) error {
	if c.cfg.DryRun {
		return nil
	}
	for _, m := range members {
		a := m.copy.Attempt()
		isOver := a.Digest != m.source.Digest || m.source.Digest == m.copy.Digest
		if a.Digest == "" || !isOver {
			continue
		}
		if err := c.annotate(ctx, m, stable.WithoutAttempt(m.copy.Annotations)); err != nil {
			return err
		}
	}
	return nil
}

// checkCopy checks the first stable copy of a member, which is what pods have. It reads the copy
// when it is its turn.
func (c *Controller) checkCopy(ctx context.Context, m *member, ref api.Ref) error {
	if len(m.settings.Rules) == 0 {
		return nil
	}
	content, err := c.read(ctx, ref)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case content.Digest != m.source.Digest:
		return nil // An edit was promoted meanwhile, which was checked.
	}
	refused, err := c.checkContent(ctx, m, content)
	if refused != "" {
		c.reportRefused(ctx, m, refused)
	}
	return err
}

// checkContent returns which rules a content breaks; empty for none.
func (c *Controller) checkContent(ctx context.Context, m *member, content stable.Object) (refused string, err error) {
	problems, err := c.cfg.Check(ctx, m.settings.Rules, validation.Content{
		Data: content.Data(), IsSecret: m.ref().Kind == api.Secret, Now: time.Now(),
	})
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

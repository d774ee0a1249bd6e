package release

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

// act is a command that writes the stable copy of an object, and those of the other objects of its
// group.
type act struct {
	target

	reason string
	force  bool
}

func newAct(s *session.Session, c *cobra.Command) *act {
	o := &act{target: target{Session: s}}
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the history and for others who look at it")
	return o
}

func newPromote(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use:         "promote TYPE/NAME",
		Annotations: session.Kinds("configmap", "secret"),
		Short:       "Show an edit to all pods now",
		Long: "Ends the release of an edit: all pods get it, whatever step it has come to, and whether it was frozen or " +
			"reverted. The rules\n" +
			"of the annotation must hold. All edits of a group are promoted together.",
		Example: "  kubectl liveconfig release promote configmap/web",
	}
	o := newAct(s, c)
	c.Flags().BoolVar(&o.force, "force", false, "promote an edit for which a rule of the annotation does not hold")
	c.RunE = func(c *cobra.Command, args []string) error {
		reason := o.because("promoted")
		return o.steer(c.Context(), args, "promoted: all pods get the edit", func(u plan.Unit) plan.Decision {
			return plan.Promotion(u, reason)
		}, nil)
	}
	return c
}

func newFreeze(s *session.Session) *cobra.Command {
	return newEnd(s, release.Frozen, "frozen: the pods that have the edit keep it, and no other pod gets it",
		&cobra.Command{
			Use:         "freeze TYPE/NAME",
			Annotations: session.Kinds("configmap", "secret"),
			Short:       "Show an edit to no more pods",
			Long: "The pods that have the edit keep it, and no other pod gets it, until somebody promotes or reverts it, or " +
				"edits the object\n" +
				"again. All edits of a group are frozen together.",
			Example: "  kubectl liveconfig release freeze configmap/web --reason 'latency is up'",
		})
}

func newRevert(s *session.Session) *cobra.Command {
	return newEnd(s, release.Reverted, "reverted: all pods have what they had before the edit", &cobra.Command{
		Use:         "revert TYPE/NAME",
		Annotations: session.Kinds("configmap", "secret"),
		Short:       "Take an edit back from all pods",
		Long: "All pods get what they had before the edit, at once. The object keeps the edit: edit it again, or apply " +
			"what was there\n" +
			"before, to end this. All edits of a group are taken back together.",
		Example: "  kubectl liveconfig release revert configmap/web --reason 'wrong endpoint'",
	})
}

// newEnd has a command end a release in a state that only a newer edit or a person ends.
func newEnd(s *session.Session, state release.State, done string, c *cobra.Command) *cobra.Command {
	o := newAct(s, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		reason := o.because(strings.ToLower(string(state)))
		return o.steer(c.Context(), args, done, func(u plan.Unit) plan.Decision {
			return plan.End(u, state, reason)
		}, errPromoted)
	}
	return c
}

func (o *act) because(what string) string {
	name := "somebody"
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	text := what + " by " + name
	if o.reason != "" {
		text += ": " + o.reason
	}
	return text
}

// attempts is how often a command begins again because the controller, or somebody else, was
// faster.
const attempts = 20

// errPromoted is why nothing is taken back or frozen.
var errPromoted = errors.New("it is being promoted; use release undo then")

// steer does what is decided until nothing is left to do. The error is for a promotion that is
// decided; nil if that is what the person wants.
func (o *act) steer(
	ctx context.Context, args []string, done string, decide func(plan.Unit) plan.Decision, noPromotion error,
) error {
	client, p, err := o.one(ctx, args)
	if err != nil {
		return err
	}
	first, err := readGroup(ctx, client, p)
	if err != nil {
		return err
	}
	if noPromotion == nil {
		if err := o.mustHold(ctx, first.changed()); err != nil {
			return err
		}
	}
	writer := stable.Writer{Client: client, Manager: edit.FieldManager}
	now := first
	for range attempts {
		d := decide(now.unit())
		if d.Action == plan.Promote && noPromotion != nil {
			return fmt.Errorf("%s: %w", p.Source.Ref, noPromotion)
		}
		if d.Action == plan.Rest && d.After == 0 {
			return o.report(first.changed(), done)
		}
		if err := o.do(ctx, writer, now, d); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		if now, err = now.again(ctx, client); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: others write its stable copy all the time; try again", p.Source.Ref)
}

// report prints what was done to each object.
func (o *act) report(changed []pair, done string) error {
	for _, p := range changed {
		if _, err := fmt.Fprintf(o.Out, "%s %s\n", release.NameOf(p.Source.Ref), done); err != nil {
			return err
		}
	}
	return nil
}

func (o *act) do(ctx context.Context, writer stable.Writer, g group, d plan.Decision) error {
	if d.Action == plan.Rest {
		select {
		case <-time.After(d.After):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, p := range g.pairs {
		if !slices.Contains(d.Names, release.NameOf(p.Source.Ref)) {
			continue
		}
		e := d.Exposure
		e.Digest = p.Source.Digest
		annotations, content := stable.Annotate(p.Copy.Annotations, e), (*stable.Object)(nil)
		if d.Action == plan.Promote {
			annotations, content = stable.AnnotatePromoted(p.Copy.Annotations, p.Source.Digest, time.Now(),
				o.because("promoted")), &p.Source
		}
		if d.Action == plan.Expose && p.Copy.Exposure().String() == e.String() {
			continue
		}
		if _, err := writer.Write(ctx, *p.Copy, annotations, content); err != nil {
			return err
		}
	}
	return nil
}

func (o *act) mustHold(ctx context.Context, pairs []pair) error {
	checker, err := isolated.New()
	if err != nil {
		return err
	}
	var broken []string
	for _, p := range pairs {
		if !p.Copy.CanBecome(p.Source) {
			return fmt.Errorf("%s has another type than its stable copy, which cannot be changed: delete %s, and the "+
				"controller creates it again",
				p.Source.Ref, p.Copy.Ref)
		}
		s, mistakes := settings.Parse(p.Source.Annotation)
		for _, m := range mistakes {
			broken = append(broken, m.String())
		}
		content := validation.Content{Data: p.Source.Data(), IsSecret: p.Source.Ref.Kind == api.Secret, Now: time.Now()}
		problems, err := checker.Check(ctx, s.Rules, content)
		if err != nil {
			broken = append(broken, err.Error())
		}
		for _, problem := range problems {
			broken = append(broken, problem.String())
		}
	}
	switch {
	case len(broken) == 0:
		return nil
	case o.force:
		o.Remark("warning: %s", strings.Join(broken, "; "))
		return nil
	}
	return errors.New(strings.Join(broken, "; ") + "; correct it, or use --force")
}

// group is what a person steers together: one object, or those of a group.
type group struct {
	name  string // Empty for one object.
	pairs []pair // Those with a copy, by name.
}

// readGroup returns the object with the others of its group. One of them must have an edit that not
// all pods have.
func readGroup(ctx context.Context, client kubernetes.Interface, p pair) (group, error) {
	g, err := readAll(ctx, client, p)
	if err == nil && len(g.changed()) == 0 {
		err = fmt.Errorf("%s: all pods have what it has: there is no edit under way; use kubectl liveconfig release undo "+
			"%s -n %s to take back what was promoted", p.Source.Ref, release.NameOf(p.Source.Ref), p.Source.Ref.Namespace)
	}
	return g, err
}

// readAll returns the object with the others of its group.
func readAll(ctx context.Context, client kubernetes.Interface, p pair) (group, error) {
	if p.Copy == nil {
		return group{}, errNoCopy(p.Source.Ref)
	}
	g := group{name: settings.GroupOf(p.Source.Annotation), pairs: []pair{p}}
	if g.name != "" {
		refs, denied := list(ctx, client, p.Source.Ref.Namespace)
		if len(denied) > 0 {
			return group{}, fmt.Errorf("%s is released together with the other objects of the group %s: %w", p.Source.Ref,
				g.name, errors.Join(denied...))
		}
		g.pairs = nil
		for _, ref := range refs {
			other, err := read(ctx, client, ref)
			if err != nil {
				return group{}, err
			}
			if other.Copy != nil && settings.GroupOf(other.Source.Annotation) == g.name {
				g.pairs = append(g.pairs, other)
			}
		}
	}
	return g, nil
}

// again reads the group again, which must have the same edits.
func (g group) again(ctx context.Context, client kubernetes.Interface) (group, error) {
	now := group{name: g.name}
	for _, p := range g.pairs {
		next, err := read(ctx, client, p.Source.Ref)
		switch {
		case err != nil:
			return group{}, err
		case next.Copy == nil:
			return group{}, errNoCopy(p.Source.Ref)
		case next.Source.Digest != p.Source.Digest:
			return group{}, fmt.Errorf("%s was edited meanwhile: nothing more is done", p.Source.Ref)
		}
		now.pairs = append(now.pairs, next)
	}
	return now, nil
}

func (g group) changed() (pairs []pair) {
	for _, p := range g.pairs {
		if p.Source.Digest != p.Copy.Digest {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func (g group) unit() plan.Unit {
	u := plan.Unit{Now: time.Now().UTC()}
	for i, p := range g.pairs {
		if s, mistakes := settings.Parse(p.Source.Annotation); i == 0 && len(mistakes) == 0 {
			u.Settings = s
		}
		u.Objects = append(u.Objects, plan.Object{
			Name: release.NameOf(p.Source.Ref), Version: p.Source.Version, Candidate: p.Source.Digest, Stable: p.Copy.Digest,
			Exposure: p.Copy.Exposure(), Together: p.Copy.Together(), Rules: p.Source.Annotation,
		})
	}
	u.Settings.Group = g.name
	return u
}

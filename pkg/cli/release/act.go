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

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/release/releases"
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

func newPromote(s *session.Session) *cobra.Command {
	o := &act{target: target{Session: s}}
	c := &cobra.Command{
		Use:   "promote TYPE/NAME",
		Short: "Show an edit to all pods now",
		Long: "Ends the release of an edit: all pods get it, whatever step it has come to, and whether it was frozen or reverted. The rules\n" +
			"of the annotation must hold. All edits of a group are promoted together.",
		Example: "  kubectl liveconfig release promote configmap/web",
		RunE:    func(c *cobra.Command, args []string) error { return o.promote(c.Context(), args) },
	}
	o.addFlags(c)
	c.Flags().BoolVar(&o.force, "force", false, "promote an edit for which a rule of the annotation does not hold")
	return c
}

func newFreeze(s *session.Session) *cobra.Command {
	o := &act{target: target{Session: s}}
	c := &cobra.Command{
		Use:   "freeze TYPE/NAME",
		Short: "Show an edit to no more pods",
		Long: "The pods that have the edit keep it, and no other pod gets it, until somebody promotes or reverts it, or edits the object\n" +
			"again. All edits of a group are frozen together.",
		Example: "  kubectl liveconfig release freeze configmap/web --reason 'latency is up'",
		RunE: func(c *cobra.Command, args []string) error {
			return o.end(c.Context(), args, release.Frozen, "frozen: the pods that have the edit keep it, and no other pod gets it")
		},
	}
	o.addFlags(c)
	return c
}

func newRevert(s *session.Session) *cobra.Command {
	o := &act{target: target{Session: s}}
	c := &cobra.Command{
		Use:   "revert TYPE/NAME",
		Short: "Take an edit back from all pods",
		Long: "All pods get what they had before the edit, at once. The object keeps the edit: edit it again, or apply what was there\n" +
			"before, to end this. All edits of a group are taken back together.",
		Example: "  kubectl liveconfig release revert configmap/web --reason 'wrong endpoint'",
		RunE: func(c *cobra.Command, args []string) error {
			return o.end(c.Context(), args, release.Reverted, "reverted: all pods have what they had before the edit")
		},
	}
	o.addFlags(c)
	return c
}

func (o *act) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the history and for others who look at it")
}

// because returns the reason with the name of the person.
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

// end ends a release in a state that only a newer edit or a person ends.
func (o *act) end(ctx context.Context, args []string, state release.State, done string) error {
	reason := o.because(strings.ToLower(string(state)))
	return o.steer(ctx, args, done, func(u plan.Unit) plan.Decision { return plan.End(u, state, reason) }, errPromoted)
}

// errPromoted is why nothing is taken back or frozen.
var errPromoted = errors.New("it is being promoted; what was promoted is taken back by another edit")

func (o *act) promote(ctx context.Context, args []string) error {
	reason := o.because("promoted")
	return o.steer(ctx, args, "promoted: all pods get the edit", func(u plan.Unit) plan.Decision { return plan.Promotion(u, reason) }, nil)
}

// steer does what is decided until nothing is left to do. The error is for a promotion that is
// decided; nil if that is what the person wants.
func (o *act) steer(ctx context.Context, args []string, done string, decide func(plan.Unit) plan.Decision, noPromotion error) error {
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
			return o.print(first, done)
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

// do does what was decided about some objects of a group, in the order of their names.
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
			annotations, content = stable.AnnotatePromoted(p.Copy.Annotations, p.Source.Digest, time.Now(), o.because("promoted")), &p.Source
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

// mustHold returns an error if a rule does not hold and nothing is forced.
func (o *act) mustHold(ctx context.Context, pairs []releases.Pair) error {
	checker, err := isolated.New()
	if err != nil {
		return err
	}
	var broken []string
	for _, p := range pairs {
		if !p.Copy.CanBecome(p.Source) {
			return fmt.Errorf("%s has another type than its stable copy, which cannot be changed: delete %s, and the controller creates it again",
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

// print prints a line for each object whose edit was under way.
func (o *act) print(g group, done string) error {
	for _, p := range g.changed() {
		if _, err := fmt.Fprintf(o.Out, "%s %s\n", release.NameOf(p.Source.Ref), done); err != nil {
			return err
		}
	}
	return nil
}

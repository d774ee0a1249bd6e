package release

import (
	"context"
	"errors"
	"fmt"
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

	// state is the one that the command ends a release in; empty for one that promotes.
	state release.State
	// done is what is printed of each object: «frozen: no other pod gets it».
	done   string
	reason string
	force  bool
	// because is what is recorded: what was done, by whom and why.
	because string
}

func newAct(s *session.Session, state release.State, done string, c *cobra.Command) *act {
	o := &act{target: target{Session: s}, state: state, done: done}
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the history and for others who look at it; 500 bytes at most")
	c.RunE = func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) }
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
	o := newAct(s, "", "promoted: all pods get the edit", c)
	c.Flags().BoolVar(&o.force, "force", false, "promote an edit for which a rule of the annotation does not hold")
	return c
}

func newFreeze(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use:         "freeze TYPE/NAME",
		Annotations: session.Kinds("configmap", "secret"),
		Short:       "Show an edit to no more pods",
		Long: "The pods that have the edit keep it, and no other pod gets it, until somebody promotes or reverts it, or " +
			"edits the object\n" +
			"again. All edits of a group are frozen together.",
		Example: "  kubectl liveconfig release freeze configmap/web --reason 'latency is up'",
	}
	newAct(s, release.Frozen, "frozen: the pods that have the edit keep it, and no other pod gets it", c)
	return c
}

func newRevert(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use:         "revert TYPE/NAME",
		Annotations: session.Kinds("configmap", "secret"),
		Short:       "Take an edit back from all pods",
		Long: "All pods get what they had before the edit, at once. The object keeps the edit: edit it again, or apply " +
			"what was there\n" +
			"before, to end this. All edits of a group are taken back together.",
		Example: "  kubectl liveconfig release revert configmap/web --reason 'wrong endpoint'",
	}
	newAct(s, release.Reverted, "reverted: all pods have what they had before the edit", c)
	return c
}

// decide returns what is left to do.
func (o *act) decide(u plan.Unit) plan.Decision {
	if o.state == "" {
		return plan.Promotion(u, o.because)
	}
	return plan.End(u, o.state, o.because)
}

// attempts is how often a command begins again because the controller, or somebody else, was
// faster.
const attempts = 20

// errPromoted is why nothing is taken back or frozen.
var errPromoted = errors.New("it is being promoted; use release undo then")

func (o *act) run(ctx context.Context, args []string) error {
	if err := o.limit(); err != nil {
		return err
	}
	client, p, err := o.one(ctx, args)
	if err != nil {
		return err
	}
	first, err := readGroup(ctx, client, p)
	if err != nil {
		return err
	}
	if o.state == "" {
		if err := o.mustHold(ctx, first.changed()); err != nil {
			return err
		}
	}
	o.because = o.record(ctx, client)
	hasWritten, err := o.steer(ctx, client, first)
	if err != nil {
		return err
	}
	done := first.changed()
	if err := o.print(done); err != nil || !hasWritten { // It was so before.
		return err
	}
	o.events(ctx, client, done)
	return nil
}

// print prints what was done to each object.
func (o *act) print(pairs []pair) error {
	for _, p := range pairs {
		if _, err := fmt.Fprintf(o.Out, "%s %s\n", release.NameOf(p.Source.Ref), o.done); err != nil {
			return err
		}
	}
	return nil
}

// events writes an Event about each object, if the person may.
func (o *act) events(ctx context.Context, client kubernetes.Interface, pairs []pair) {
	for _, p := range pairs {
		if err := o.event(ctx, client, p.Source); err != nil {
			o.Remark("note: the API server takes no Event on %s: %v", p.Source.Ref, err)
		}
	}
}

// steer does what is decided until nothing is left to do.
func (o *act) steer(ctx context.Context, client kubernetes.Interface, first group) (hasWritten bool, err error) {
	writer := stable.Writer{Client: client, Manager: edit.FieldManager}
	ref, now := first.changed()[0].Source.Ref, first
	for range attempts {
		d := o.decide(now.unit())
		if d.Action == plan.Promote && o.state != "" {
			return hasWritten, fmt.Errorf("%s: %w", ref, errPromoted)
		}
		if d.Action == plan.Rest && d.After == 0 {
			return hasWritten, nil
		}
		err := o.do(ctx, writer, now, d)
		if err != nil && !apierrors.IsConflict(err) {
			return hasWritten, err
		}
		hasWritten = hasWritten || d.Action != plan.Rest
		if now, err = now.again(ctx, client); err != nil {
			return hasWritten, err
		}
	}
	return hasWritten, fmt.Errorf("%s: others write its stable copy all the time; try again", ref)
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
				o.because), &p.Source
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
		return group{}, errNoCopy(p)
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
			return group{}, errNoCopy(next)
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

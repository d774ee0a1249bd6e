package release

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/release/releases"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

// act is a command that writes the stable copy of one object.
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
			"of the annotation must hold.",
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
			"again.",
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
			"before, to end this.",
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

// candidate returns the object of the argument, which must have an edit that not all pods have.
func (o *act) candidate(ctx context.Context, args []string) (stable.Writer, releases.Pair, error) {
	client, p, err := o.one(ctx, args)
	switch {
	case err != nil:
		return stable.Writer{}, p, err
	case p.Copy == nil:
		return stable.Writer{}, p, errNoCopy(p.Source.Ref)
	case p.Copy.Digest == p.Source.Digest:
		return stable.Writer{}, p, fmt.Errorf("%s: all pods have what it has: there is no edit under way; what was promoted is taken back "+
			"by another edit", p.Source.Ref)
	}
	return stable.Writer{Client: client, Manager: edit.FieldManager}, p, nil
}

// end ends a release in a state that only a newer edit or a person ends.
func (o *act) end(ctx context.Context, args []string, state release.State, done string) error {
	writer, p, err := o.candidate(ctx, args)
	if err != nil {
		return err
	}
	e := p.Copy.Exposure()
	if e.Digest != p.Source.Digest {
		e = release.Exposure{}
	}
	if state == release.Reverted {
		e.Threshold, e.Pods = 0, nil
	}
	e.Digest, e.State, e.Since, e.Reason, e.Rules = p.Source.Digest, state, time.Now().UTC(), o.because(strings.ToLower(string(state))), ""
	if _, err := writer.Write(ctx, *p.Copy, stable.Annotate(p.Copy.Annotations, e), nil); err != nil {
		return err
	}
	return o.print(p, done)
}

func (o *act) promote(ctx context.Context, args []string) error {
	writer, p, err := o.candidate(ctx, args)
	if err != nil {
		return err
	}
	if err := o.mustHold(ctx, p); err != nil {
		return err
	}
	annotations := stable.AnnotatePromoted(p.Copy.Annotations, p.Source.Digest, time.Now(), o.because("promoted"))
	if !p.Copy.CanBecome(p.Source) {
		return fmt.Errorf("%s has another type than its stable copy, which cannot be changed: delete %s, and the controller creates it again",
			p.Source.Ref, p.Copy.Ref)
	}
	if _, err := writer.Write(ctx, *p.Copy, annotations, &p.Source); err != nil {
		return err
	}
	return o.print(p, "promoted: all pods get the edit")
}

// mustHold returns an error if a rule does not hold and nothing is forced.
func (o *act) mustHold(ctx context.Context, p releases.Pair) error {
	s, mistakes := settings.Parse(p.Source.Annotation)
	var broken []string
	for _, m := range mistakes {
		broken = append(broken, m.String())
	}
	content := validation.Content{Data: p.Source.Data(), IsSecret: p.Source.Ref.Kind == api.Secret, Now: time.Now()}
	checker, err := isolated.New()
	if err != nil {
		return err
	}
	problems, err := checker.Check(ctx, s.Rules, content)
	if err != nil {
		broken = append(broken, err.Error())
	}
	for _, problem := range problems {
		broken = append(broken, problem.String())
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

func (o *act) print(p releases.Pair, done string) error {
	_, err := fmt.Fprintf(o.Out, "%s %s\n", release.NameOf(p.Source.Ref), done)
	return err
}

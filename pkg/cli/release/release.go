// Package release is `kubectl liveconfig release`: status, promote, freeze, revert and history.
//
// It does not know how a release goes on: the controller and the drivers do that.
package release

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	c := usage.Group(&cobra.Command{
		Use:   "release",
		Short: "Look at edits that are shown to few pods first, and steer them",
		Long: "An edit of a ConfigMap or Secret with the annotation " + release.Annotation + " is checked, shown to some pods, watched,\n" +
			"and then shown to all or taken back. The object itself is never written.",
	})
	c.AddCommand(newStatus(s), newPromote(s), newFreeze(s), newRevert(s), newHistory(s))
	return c
}

// target is what the commands work on.
type target struct {
	*session.Session

	driver string
}

func (o *target) addFlags(c *cobra.Command) { selection.AddDriverFlag(c, &o.driver) }

// refOf returns the object that an argument such as configmap/web names.
func (o *target) refOf(argument string) (api.Ref, error) {
	kind, name, found := strings.Cut(argument, "/")
	ref := api.Ref{Namespace: session.NamespaceOr(o.Session, ""), Name: name}
	switch strings.ToLower(kind) {
	case "configmap", "configmaps", "cm":
		ref.Kind = api.ConfigMap
	case "secret", "secrets":
		ref.Kind = api.Secret
	default:
		found = false
	}
	if !found || name == "" || strings.Contains(name, "/") {
		return api.Ref{}, usage.Errorf("%q: name a ConfigMap or Secret such as configmap/web", argument)
	}
	return ref, nil
}

// one returns the object that the only argument names, with its copy.
func (o *target) one(ctx context.Context, args []string) (kubernetes.Interface, pair, error) {
	if len(args) != 1 {
		return nil, pair{}, usage.Errorf("name one ConfigMap or Secret such as configmap/web")
	}
	ref, err := o.refOf(args[0])
	if err != nil {
		return nil, pair{}, err
	}
	client, err := o.Clientset()
	if err != nil {
		return nil, pair{}, err
	}
	p, err := read(ctx, client, ref)
	return client, p, err
}

// errNoCopy is for what needs a stable copy.
func errNoCopy(ref api.Ref) error {
	return fmt.Errorf("%s has no stable copy yet: see its Events, and whether the controller runs with --releases", ref)
}

// history is the command with its flags.
type history struct {
	target

	output printing.Format
}

func newHistory(s *session.Session) *cobra.Command {
	o := &history{target: target{Session: s}}
	c := &cobra.Command{
		Use:     "history TYPE/NAME",
		Short:   "Show how the last releases of an object ended",
		Long:    "Prints the last ten, newest first. An edit is named by the beginning of its digest: the content is not stored.",
		Example: "  kubectl liveconfig release history configmap/web",
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.output.AddFlag(c, "json or yaml; a table by default", "json", "yaml")
	return c
}

func (o *history) run(ctx context.Context, args []string) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	_, p, err := o.one(ctx, args)
	if err != nil {
		return err
	}
	if p.Copy == nil {
		return errNoCopy(p.Source.Ref)
	}
	entries, err := release.ParseHistory(p.Copy.Annotations[release.HistoryAnnotation])
	if err != nil {
		return err
	}
	if o.output.IsEncoded() {
		return o.output.Encode(o.Out, append([]release.Entry{}, entries...))
	}
	if len(entries) == 0 {
		o.Remark("No release of %s has ended yet.", p.Source.Ref)
		return nil
	}
	rows := [][]string{{"AT", "OUTCOME", "EDIT", "REASON"}}
	for _, e := range entries {
		const enough = 10
		rows = append(rows, []string{printing.Time(e.At), e.Outcome, e.Digest[:min(len(e.Digest), enough)], e.Reason})
	}
	const spaces = 3
	return printing.Table(o.Out, spaces, rows)
}

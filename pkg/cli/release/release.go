// Package release is `kubectl liveconfig release`, which shows and steers releases.
//
// It does not know how a release goes on: the controller and the drivers do that.
package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	c := session.Group(&cobra.Command{
		Use:   "release",
		Short: "Look at edits that are shown to few pods first, and steer them",
		Long: "An edit of a ConfigMap or Secret with the annotation " + release.Annotation +
			" is checked, shown to some pods, watched,\n" +
			"and then shown to all or taken back. The object itself is never written.",
	})
	c.AddCommand(newStatus(s), newPromote(s), newFreeze(s), newRevert(s), newUndo(s), newHistory(s))
	return c
}

type target struct{ *session.Session }

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
		return api.Ref{}, fmt.Errorf("%q: name a ConfigMap or Secret such as configmap/web", argument)
	}
	return ref, nil
}

// one returns the object that the only argument names, with its copy.
func (o *target) one(ctx context.Context, args []string) (kubernetes.Interface, pair, error) {
	if len(args) != 1 {
		return nil, pair{}, errors.New("name one ConfigMap or Secret such as configmap/web")
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

// errNoCopy is why an object cannot be steered that has no stable copy.
func errNoCopy(p pair) error {
	if p.IsTaken {
		return errors.New(taken(p.Source.Ref))
	}
	return fmt.Errorf("%s has no stable copy yet: see its Events, and whether the controller runs with --releases",
		p.Source.Ref)
}

// taken returns the error for an object that has the name of a stable copy and not its label.
func taken(ref api.Ref) string {
	return fmt.Sprintf("%s has the name of the stable copy, but not the label %s: %s: no edit reaches more pods; "+
		"label it again if it is the copy, else delete it",
		release.StableOf(ref), release.StableLabel, release.LabelOf(ref.Name))
}

type history struct {
	target

	output printing.Format
}

func newHistory(s *session.Session) *cobra.Command {
	o := &history{target: target{Session: s}}
	c := &cobra.Command{
		Use:         "history TYPE/NAME",
		Annotations: session.Kinds("configmap", "secret"),
		Short:       "Show how the last releases of an object ended",
		Long: "Prints the last ten, newest first. An edit is named by the beginning of its digest: the content " +
			"is not stored.",
		Example: "  kubectl liveconfig release history configmap/web",
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.output.AddFlag(c, "json or yaml; a table by default", "json", "yaml")
	return c
}

func (o *history) run(ctx context.Context, args []string) error {
	_, p, err := o.one(ctx, args)
	if err != nil {
		return err
	}
	if p.Copy == nil {
		return errNoCopy(p)
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

type pair struct {
	Source stable.Object
	Copy   *stable.Object // Nil for none.
	// IsTaken means that another object has the name of the copy, or that the copy has lost its
	// label. Then no edit reaches more pods, and drivers leave the files as they are.
	IsTaken bool
}

func read(ctx context.Context, client kubernetes.Interface, ref api.Ref) (pair, error) {
	source, err := stable.Read(ctx, client, ref)
	if err != nil {
		return pair{}, err
	}
	if !source.IsReleased {
		return pair{}, fmt.Errorf("%s is not released: it has no annotation %s", ref, release.Annotation)
	}
	p := pair{Source: source}
	found, err := stable.Read(ctx, client, release.StableOf(ref))
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return pair{}, err
	case found.IsCopyOf(ref):
		p.Copy = &found
	default:
		p.IsTaken = true
	}
	return p, nil
}

// list returns the released objects of a namespace, or of all for an empty one, by namespace and
// name. The result leaves out objects that the caller may not list, and names them.
func list(ctx context.Context, client kubernetes.Interface, namespace string) (refs []api.Ref, denied []error) {
	take := func(kind api.Kind, list runtime.Object, err error) {
		if err != nil {
			denied = append(denied, fmt.Errorf("list %ss: %w", kind, err))
			return
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error { // It has items.
			m, err := meta.Accessor(item)
			if _, isReleased := m.GetAnnotations()[release.Annotation]; isReleased {
				refs = append(refs, api.Ref{Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName()})
			}
			return err
		})
	}
	configMaps, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	take(api.ConfigMap, configMaps, err)
	secrets, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	take(api.Secret, secrets, err)
	slices.SortFunc(refs, func(a, b api.Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(release.NameOf(a), release.NameOf(b)))
	})
	return refs, denied
}

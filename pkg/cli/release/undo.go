package release

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

func newUndo(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use:         "undo TYPE/NAME",
		Annotations: session.Kinds("configmap", "secret"),
		Short:       "Take an edit back after its promotion",
		Long: "All pods get the stable content before this one, at once, if it is still kept. The object keeps the edit: " +
			"edit it again, or\n" +
			"apply what was there before, to end this. All objects that were promoted together are taken back together.",
		Example: "  kubectl liveconfig release undo configmap/web --reason 'latency is up'",
	}
	o := newAct(s, release.Reverted, "undone: all pods have what they had before the edit", c)
	c.RunE = func(c *cobra.Command, args []string) error { return o.undo(c.Context(), args) }
	return c
}

// undone is an object with the content that it is to have again.
type undone struct {
	pair

	content stable.Object
}

func (o *act) undo(ctx context.Context, args []string) error {
	client, p, err := o.one(ctx, args)
	if err != nil {
		return err
	}
	if err := o.limit(); err != nil {
		return err
	}
	o.because = o.record(ctx, client)
	for range attempts {
		if err = o.undoOnce(ctx, client, p); !apierrors.IsConflict(err) {
			return err
		}
		if p, err = read(ctx, client, p.Source.Ref); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: others write its stable copy all the time; try again", p.Source.Ref)
}

func (o *act) undoOnce(ctx context.Context, client kubernetes.Interface, p pair) error {
	g, err := readAll(ctx, client, p)
	if err != nil {
		return err
	}
	all, err := undoneOf(ctx, client, p, g)
	if err != nil {
		return err
	}
	e := release.Exposure{State: release.Reverted, Since: time.Now().UTC(), Reason: o.because}
	together := map[string]string{}
	if len(all) > 1 {
		// With the same names and versions it would stand for the release that promoted them.
		e.With = map[string]string{release.Undone: e.Since.Format(time.RFC3339Nano)}
		for _, one := range all {
			name := release.NameOf(one.Source.Ref)
			e.With[name], together[name] = one.Source.Version, one.Copy.Version
		}
	}
	writer := stable.Writer{Client: client, Manager: edit.FieldManager}
	others := map[string]release.Partners{}
	for _, member := range g.pairs {
		if name := release.NameOf(member.Source.Ref); together[name] == "" {
			others[name] = member.Copy.Partners()
		}
	}
	for _, one := range all {
		e.Digest = one.Source.Digest
		annotations := stable.AnnotateUndone(one.Copy.Annotations, e, together)
		annotations = stable.AgreeWith(annotations, release.NameOf(one.Source.Ref), others)
		if _, err := writer.Write(ctx, *one.Copy, annotations, &one.content); err != nil {
			return err
		}
	}
	pairs := make([]pair, len(all))
	for i, one := range all {
		pairs[i] = one.pair
	}
	if err := o.print(pairs); err != nil {
		return err
	}
	o.events(ctx, client, pairs)
	return nil
}

// undoneOf returns the object, and those that were promoted together with it, with the contents
// before. Nothing is undone unless all of them can be.
func undoneOf(ctx context.Context, client kubernetes.Interface, p pair, g group) ([]undone, error) {
	var all []undone
	for _, member := range g.pairs {
		isChanged := member.Source.Digest != member.Copy.Digest
		switch {
		case !p.isUndoneWith(member):
		case isChanged && member.Copy.Exposure().State == release.Reverted: // By a command that did not end.
		case isChanged:
			return nil, fmt.Errorf("%s has an edit that not all pods have: use kubectl liveconfig release revert %s -n %s",
				member.Source.Ref, release.NameOf(p.Source.Ref), p.Source.Ref.Namespace)
		default:
			content, err := before(ctx, client, member)
			if err != nil {
				return nil, err
			}
			all = append(all, undone{member, content})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: the edit is taken back already", p.Source.Ref)
	}
	return all, nil
}

// isUndoneWith reports whether another object is taken back together with this one: both were
// promoted together, or the other one is what a command has left over.
func (p pair) isUndoneWith(other pair) bool {
	together, e := p.Copy.Together(), p.Copy.Exposure()
	_, isLeft := e.With[release.NameOf(other.Source.Ref)]
	return other.Source.Ref == p.Source.Ref || together != "" && other.Copy.Together() == together ||
		isLeft && e.State == release.Reverted
}

// before returns the stable content before the one that an object has.
func before(ctx context.Context, client kubernetes.Interface, p pair) (stable.Object, error) {
	former, err := stable.Read(ctx, client, release.FormerOf(p.Source.Ref))
	if err != nil && !apierrors.IsNotFound(err) {
		return stable.Object{}, err
	}
	stored, isKept := former.Former().Before(p.Copy.Digest)
	if err != nil || !former.IsFormerOf(p.Source.Ref) || !isKept {
		return stable.Object{}, fmt.Errorf("%s: no content that was stable before is kept: edit the object instead",
			p.Source.Ref)
	}
	return former.Kept(stored, p.Source)
}

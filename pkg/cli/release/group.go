package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/release/releases"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// group is what a person steers together: one object, or those of a group.
type group struct {
	name  string          // Empty for one object.
	pairs []releases.Pair // Those with a copy, by name.
}

// readGroup returns the object with the others of its group. One of them must have an edit that not
// all pods have.
func readGroup(ctx context.Context, client kubernetes.Interface, p releases.Pair) (group, error) {
	if p.Copy == nil {
		return group{}, errNoCopy(p.Source.Ref)
	}
	g := group{name: settings.GroupOf(p.Source.Annotation), pairs: []releases.Pair{p}}
	if g.name != "" {
		refs, denied := releases.List(ctx, client, p.Source.Ref.Namespace)
		if len(denied) > 0 {
			return group{}, fmt.Errorf("%s is released together with the other objects of the group %s: %w", p.Source.Ref, g.name, errors.Join(denied...))
		}
		g.pairs = nil
		for _, ref := range refs {
			other, err := releases.Read(ctx, client, ref)
			if err != nil {
				return group{}, err
			}
			if other.Copy != nil && settings.GroupOf(other.Source.Annotation) == g.name {
				g.pairs = append(g.pairs, other)
			}
		}
	}
	if len(g.changed()) == 0 {
		return group{}, fmt.Errorf("%s: all pods have what it has: there is no edit under way; what was promoted is taken back by another edit",
			p.Source.Ref)
	}
	return g, nil
}

// again reads the group again, which must have the same edits.
func (g group) again(ctx context.Context, client kubernetes.Interface) (group, error) {
	now := group{name: g.name}
	for _, p := range g.pairs {
		next, err := releases.Read(ctx, client, p.Source.Ref)
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

// changed returns the objects whose edits not all pods have.
func (g group) changed() (pairs []releases.Pair) {
	for _, p := range g.pairs {
		if p.Source.Digest != p.Copy.Digest {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// unit returns what is to be decided about.
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

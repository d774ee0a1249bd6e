package check

import (
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/kustomization"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// source is where a volume names an object.
type source struct {
	review

	at  manifest.Path
	ref api.Ref
}

// noteSources notes the objects that a volume needs.
func (r *podSpec) noteSources(at manifest.Path, texts map[string]string, spec api.Spec) {
	if spec.HasExpand() {
		r.expanded = append(r.expanded, expanded{r.object, spec})
	}
	for _, src := range spec.Sources {
		if src.Optional || src.Selection != nil { // Whatever has the labels by then is what it needs.
			continue
		}
		for _, key := range []string{api.KeyConfigMap, api.KeySecret, api.KeySources} {
			if _, isGiven := texts[key]; isGiven {
				r.sources = append(r.sources, source{review: r.review, at: at.Field(key), ref: src.Ref})
			}
		}
	}
}

// noteObject notes an object that the manifests have.
func (c *Checker) noteObject(object givenObject) {
	if object.content.Ref.Name == "" {
		return
	}
	if c.given == nil {
		c.given = map[api.Ref]givenObject{}
	}
	c.given[object.content.Ref] = object
}

// Search is where objects are looked for that volumes name.
type Search struct {
	// Where is the place, for messages.
	Where string
	// Exists reports whether an object exists that the manifests do not have.
	Exists func(api.Ref) (bool, error)
}

// Names finds the objects that kustomize seems to have renamed elsewhere, and with a search all
// that do not exist. It is called after all files.
func (c *Checker) Names(search *Search) {
	before := len(c.Findings)
	known := map[api.Ref]answer{}
	for _, s := range c.sources {
		if _, isGiven := c.given[s.ref]; isGiven {
			continue
		}
		if renamed := c.renamed(s); renamed != "" {
			s.warning(s.at, "%s is not among the manifests, which have %s: kustomize renames objects, and names in "+
				"volumeAttributes only with deploy/kustomize/names.yaml", s.ref.Local(), renamed)
			continue
		}
		if search == nil {
			continue
		}
		if _, isKnown := known[s.ref]; !isKnown {
			found, err := search.Exists(s.ref)
			known[s.ref] = answer{found, err}
		}
		s.judge(search.Where, known[s.ref])
	}
	c.sortFrom(before)
}

// answer is whether the cluster has an object.
type answer struct {
	found bool
	err   error
}

// judge reports an object that the manifests do not have.
func (s *source) judge(where string, a answer) {
	switch {
	case a.err != nil:
		s.warning(s.at, "%s is not among the manifests, and whether it is in the cluster is not known: %v", s.ref, a.err)
	case !a.found:
		s.mistake(s.at, "%s is not %s", s.ref, where)
	}
}

// renamed returns the name of an object that kustomize seems to have made of the one that a source
// names, and "" without one.
func (c *Checker) renamed(s source) string {
	_, beside, _ := strings.Cut(s.object, "/")
	var names []string
	for ref := range c.given {
		if ref.Kind == s.ref.Kind && ref.Namespace == s.ref.Namespace &&
			kustomization.IsRenamed(s.ref.Name, ref.Name, beside) {
			names = append(names, ref.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

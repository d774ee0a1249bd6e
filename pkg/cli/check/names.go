package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/kustomization"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// source is where a volume names an object, or a selector.
type source struct {
	review

	at  manifest.Path
	ref api.Ref
	// selected are refs of [api.Ref.Selecting], of which one has to stand for an object; nil for a
	// source that names its object.
	selected []api.Ref
}

// noteSources notes the objects that a volume needs.
func (r *podSpec) noteSources(at manifest.Path, texts map[string]string, spec api.Spec) {
	if spec.HasExpand() {
		r.expanded = append(r.expanded, expanded{r.object, spec})
	}
	for _, src := range spec.Sources {
		for _, key := range []string{api.KeyConfigMap, api.KeySecret, api.KeySources} {
			if _, isGiven := texts[key]; isGiven {
				r.noteSource(at.Field(key), src)
			}
		}
	}
	for _, v := range spec.Values {
		if v.Source.Ref.Kind != "" {
			r.noteSource(at.Field(api.KeyValues), v.Source)
		}
	}
}

func (r *podSpec) noteSource(at manifest.Path, src api.Source) {
	if !src.Optional {
		r.sources = append(r.sources, source{review: r.review, at: at, ref: src.Ref, selected: src.Selected()})
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
	// Exists reports whether an object exists that the manifests do not have, or any object for
	// which a ref of [api.Ref.Selecting] stands.
	Exists func(api.Ref) (bool, error)
}

// Names finds the objects that kustomize seems to have renamed elsewhere, and with a search all
// that do not exist. It is called after all files.
func (c *Checker) Names(search *Search) {
	before := len(c.Findings)
	known := answers{search, map[api.Ref]answer{}}
	for _, s := range c.sources {
		if s.selected != nil {
			c.judgeSelection(s, known)
			continue
		}
		c.judgeName(s, known)
	}
	c.sortFrom(before)
}

// answer is whether an object exists that the manifests do not have.
type answer struct {
	found bool
	err   error
}

// answers are those of a search, so that nothing is asked twice.
type answers struct {
	search *Search
	of     map[api.Ref]answer
}

func (a answers) exists(ref api.Ref) answer {
	if _, isKnown := a.of[ref]; !isKnown {
		found, err := a.search.Exists(ref)
		a.of[ref] = answer{found, err}
	}
	return a.of[ref]
}

// judgeName reports an object that does not exist.
func (c *Checker) judgeName(s source, known answers) {
	if _, isGiven := c.given[s.ref]; isGiven {
		return
	}
	renamed := ""
	if name := c.renamed(s); name != "" {
		renamed = fmt.Sprintf(", which have %s: kustomize renames objects, and names in volumeAttributes only with "+
			"deploy/kustomize/names.yaml", name)
	}
	var found answer
	if known.search != nil {
		found = known.exists(s.ref)
	}
	switch {
	case found.err != nil && renamed == "":
		s.warning(s.at, "%s is not among the manifests, and whether it is in the cluster is not known: %v", s.ref, found.err)
	case known.search != nil && found.err == nil && !found.found:
		s.mistake(s.at, "%s is not %s%s", s.ref, known.search.Where, renamed)
	case renamed != "":
		s.warning(s.at, "%s is not among the manifests%s", s.ref.Local(), renamed)
	}
}

// judgeSelection reports a selector that no object matches.
func (c *Checker) judgeSelection(s source, known answers) {
	if known.search == nil || slices.ContainsFunc(s.selected, c.gives) {
		return
	}
	var unknown error
	for _, ref := range s.selected {
		found := known.exists(ref)
		if found.found {
			return
		}
		unknown = cmp.Or(unknown, found.err)
	}
	selector, _ := s.selected[0].Selector()
	what := fmt.Sprintf("no %s matches labelSelector %s in %s", s.ref.Kind.Resource(), selector, namespacesOf(s.selected))
	if unknown != nil {
		s.warning(s.at, "%s among the manifests, and whether one does in the cluster is not known: %v", what, unknown)
		return
	}
	s.mistake(s.at, "%s %s", what, known.search.Where)
}

// gives reports whether the manifests have an object for which a ref of [api.Ref.Selecting] stands.
func (c *Checker) gives(selected api.Ref) bool {
	matches := selected.Matcher()
	for ref, object := range c.given {
		if matches(ref, object.labels) {
			return true
		}
	}
	return false
}

// namespacesOf names the namespaces of refs for people.
func namespacesOf(refs []api.Ref) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = cmp.Or(ref.Namespace, "any namespace")
	}
	return strings.Join(names, ", ")
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

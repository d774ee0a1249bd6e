// Package reloader reads the annotations of Reloader, another controller, as triggers of rollouts.
//
// It does not know clients, manifests, what objects hold, or whether the rollout controller reads
// these annotations.
package reloader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

const domain = "reloader.stakater.com"

// The annotations of a workload, or of its pod template, that are about both kinds of sources.
const (
	// Auto makes everything trigger that the pod template uses.
	Auto = domain + "/auto"
	// Search makes everything trigger that the pod template uses and that has Match.
	Search = domain + "/search"
)

// The annotations of a source.
const (
	// Match makes the source trigger the workloads that use it and have Search.
	Match = domain + "/match"
	// Ignore keeps the source from triggering anything.
	Ignore = domain + "/ignore"
)

// AutoOf is Auto for one kind of sources.
func AutoOf(kind api.Kind) string { return kind.Resource() + "." + Auto }

// ReloadOf is the annotation that lists sources of a kind: their names, or patterns.
func ReloadOf(kind api.Kind) string { return kind.Resource() + "." + domain + "/reload" }

// ExcludeOf is the annotation that lists the sources of a kind that do not trigger.
func ExcludeOf(kind api.Kind) string { return kind.Resource() + "s.exclude." + domain + "/reload" }

func kinds() []api.Kind { return []api.Kind{api.ConfigMap, api.Secret} }

// IsRead reports whether an annotation of a workload or pod template is one that Triggers reads.
func IsRead(key string) bool {
	return key == Auto || key == Search || slices.ContainsFunc(kinds(), func(kind api.Kind) bool {
		return key == AutoOf(kind) || key == ReloadOf(kind) || key == ExcludeOf(kind)
	})
}

// IsForeign reports whether an annotation is one of Reloader, also one that nothing here reads.
func IsForeign(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == domain || strings.HasSuffix(prefix, "."+domain)
}

// Mark is what the annotations of a source mean.
type Mark string

// The marks. The zero value is that the source has no mark.
const (
	Matched Mark = "match"
	Ignored Mark = "ignore"
	// Uncopyable is the mark of a Secret of a type that allows no copies. It is a trigger only
	// where a list names it, so that this is reported.
	Uncopyable Mark = "uncopyable"
)

// MarkOf returns the mark of a source with these annotations.
func MarkOf(annotations map[string]string) Mark {
	switch {
	case annotations[Ignore] == "true":
		return Ignored
	case annotations[Match] == "true":
		return Matched
	default:
		return ""
	}
}

// Workload is what decides about the triggers of a workload.
type Workload struct {
	// Annotations are those of the workload, Template those of its pod template. For a kind of
	// which the workload has no annotation, those of the pod template count.
	Annotations, Template map[string]string
	// Used are the sources that the pod template uses.
	Used []api.Ref
	// Matches are what Match returned for the same Patterns and the same Used. Nil: Triggers
	// matches regular expressions itself.
	Matches Matches
}

// IsAsking reports whether the workload, or its pod template, has annotations that make anything a
// trigger.
func (w Workload) IsAsking() bool {
	return slices.ContainsFunc(kinds(), func(kind api.Kind) bool {
		return isAbout(w.Annotations, kind) || isAbout(w.Template, kind)
	})
}

func isAbout(annotations map[string]string, kind api.Kind) bool {
	return slices.ContainsFunc([]string{Auto, Search, AutoOf(kind), ReloadOf(kind)}, func(key string) bool {
		_, found := annotations[key]
		return found
	})
}

// Triggers returns what triggers the workload, in order and each once, and the mistakes as
// [trigger.Join] does. It asks for the mark of each source that an annotation is about.
func (w Workload) Triggers(markOf func(api.Ref) Mark) ([]api.Ref, error) {
	matches := w.Matches
	if matches == nil {
		matches = w.Match()
	}
	var found []api.Ref
	var mistakes []string
	for _, kind := range kinds() {
		r := reader{kind: kind, from: w.from(kind), mistakes: mistakes}
		excluded := w.excluded(kind)
		isExcluded := func(o api.Ref) bool { return excluded[o.Name] }
		used := slices.DeleteFunc(w.used(kind), isExcluded) // Their marks decide nothing.
		for _, o := range r.triggers(used, matches[kind], markOf) {
			if !isExcluded(o) && markOf(o) != Ignored {
				found = append(found, o)
			}
		}
		mistakes = r.mistakes
	}
	slices.SortFunc(found, trigger.Compare)
	if found = slices.Compact(found); len(found) > trigger.MaxObjects {
		mistakes = append(mistakes,
			fmt.Sprintf("annotations of %s make %d objects triggers, more than %d", domain, len(found), trigger.MaxObjects))
		found = nil
	}
	return found, trigger.Join(mistakes)
}

// from returns the annotations that are about a kind of sources.
func (w Workload) from(kind api.Kind) map[string]string {
	if isAbout(w.Annotations, kind) {
		return w.Annotations
	}
	return w.Template
}

// excluded returns the names of the sources of a kind that do not trigger.
func (w Workload) excluded(kind api.Kind) map[string]bool {
	excluded := map[string]bool{}
	for _, from := range []map[string]string{w.Annotations, w.Template} {
		for _, name := range names(from[ExcludeOf(kind)]) {
			excluded[name] = true
		}
	}
	return excluded
}

// used returns the sources of a kind that the pod template uses.
func (w Workload) used(kind api.Kind) []api.Ref {
	return slices.DeleteFunc(slices.Clone(w.Used), func(o api.Ref) bool { return o.Kind != kind })
}

// reader reads the annotations about one kind of sources.
type reader struct {
	kind     api.Kind
	from     map[string]string
	mistakes []string // Each once.
}

func (r *reader) mistake(key, text string) {
	text = fmt.Sprintf("the annotation %s: %s", key, text)
	if !slices.Contains(r.mistakes, text) {
		r.mistakes = append(r.mistakes, text)
	}
}

// triggers returns what the annotations name, also twice.
func (r *reader) triggers(used []api.Ref, matched matches, markOf func(api.Ref) Mark) []api.Ref {
	l := listOf(r.from, r.kind)
	found := slices.Concat(l.named, matched.found)
	for _, text := range slices.Concat(l.mistakes, matched.mistakes) {
		r.mistake(ReloadOf(r.kind), text)
	}
	auto, autoOfKind, search := r.isTrue(Auto), r.isTrue(AutoOf(r.kind)), r.isTrue(Search)
	if !auto && !autoOfKind && !search {
		return found
	}
	for _, o := range used {
		if mark := markOf(o); mark == Matched || mark != Uncopyable && (auto || autoOfKind) {
			found = append(found, o)
		}
	}
	return found
}

// isTrue reads a boolean. It is false where the annotation is absent.
func (r *reader) isTrue(key string) bool {
	value, found := r.from[key]
	is, err := strconv.ParseBool(value)
	if found && err != nil {
		r.mistake(key, fmt.Sprintf(`%.50q is not a boolean: write "true" or "false"`, value))
	}
	return is
}

// names returns the entries of a list with commas between them.
func names(text string) []string {
	var list []string
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			list = append(list, entry)
		}
	}
	return list
}

// Wanted is trigger.Wanted for a workload that the controller may have rolled out by annotations of
// Reloader: where it has no other, the triggers are those that its pod template has the config of.
func Wanted(annotations map[string]string, t *corev1.PodTemplateSpec) (value, key string, found bool) {
	value, key, found = trigger.Wanted(annotations)
	if found || !(Workload{Annotations: annotations, Template: t.Annotations}).IsAsking() {
		return value, key, found
	}
	config, err := trigger.ParseConfig(t.Annotations[trigger.ConfigAnnotation])
	if err != nil || len(config) == 0 {
		return "", key, false
	}
	return trigger.Format(config.Objects()), key, true
}

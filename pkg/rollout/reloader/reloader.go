// Package reloader reads the annotations of Reloader, another controller, as triggers of rollouts.
//
// It does not know clients, manifests, what objects hold, or whether the rollout controller reads
// these annotations.
package reloader

import (
	"errors"
	"fmt"
	"regexp"
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
	Used []trigger.Object
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

// Triggers returns what triggers the workload, in order and each once, and an error that lists
// every mistake. It asks for the mark of each source that an annotation is about.
func (w Workload) Triggers(markOf func(trigger.Object) Mark) ([]trigger.Object, error) {
	var found []trigger.Object
	var mistakes []string
	for _, kind := range kinds() {
		r := reader{kind: kind, from: w.Annotations, mistakes: mistakes}
		if !isAbout(r.from, kind) {
			r.from = w.Template
		}
		excluded := slices.Concat(names(w.Annotations[ExcludeOf(kind)]), names(w.Template[ExcludeOf(kind)]))
		for _, o := range r.triggers(w.Used, markOf) {
			if !slices.Contains(excluded, o.Name) && markOf(o) != Ignored {
				found = append(found, o)
			}
		}
		mistakes = r.mistakes
	}
	slices.SortFunc(found, trigger.Compare)
	if found = slices.Compact(found); len(found) > trigger.MaxObjects {
		mistakes = append(mistakes, fmt.Sprintf("annotations of %s make %d objects triggers, more than %d", domain, len(found), trigger.MaxObjects))
		found = nil
	}
	if len(mistakes) > 0 {
		return found, errors.New(strings.Join(mistakes, "\n"))
	}
	return found, nil
}

// reader reads the annotations about one kind of sources.
type reader struct {
	kind     api.Kind
	from     map[string]string
	mistakes []string // Each once.
}

func (r *reader) mistake(key, format string, args ...any) {
	text := fmt.Sprintf("the annotation %s: %s", key, fmt.Sprintf(format, args...))
	if !slices.Contains(r.mistakes, text) {
		r.mistakes = append(r.mistakes, text)
	}
}

// triggers returns what the annotations name, also twice.
func (r *reader) triggers(used []trigger.Object, markOf func(trigger.Object) Mark) []trigger.Object {
	used = slices.DeleteFunc(slices.Clone(used), func(o trigger.Object) bool { return o.Kind != r.kind })
	found := r.listed(used)
	auto, autoOfKind, search := r.isTrue(Auto), r.isTrue(AutoOf(r.kind)), r.isTrue(Search)
	for _, o := range used {
		if auto || autoOfKind || search && markOf(o) == Matched {
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
		r.mistake(key, `%.50q is not a boolean: write "true" or "false"`, value)
	}
	return is
}

// longestPattern is how many bytes a pattern may have: as many as a name. Anybody may write one,
// and without repeat counts the time and memory of a pattern grow with its length only.
const longestPattern = 253

// listed returns the sources that a list names, and those of the used ones that its patterns match.
func (r *reader) listed(used []trigger.Object) []trigger.Object {
	key := ReloadOf(r.kind)
	text, isSet := r.from[key]
	if !isSet {
		return nil
	}
	if entries := strings.Count(text, ",") + 1; entries > trigger.MaxObjects {
		r.mistake(key, "it has %d entries, more than %d", entries, trigger.MaxObjects)
		return nil
	}
	list := names(text)
	if len(list) == 0 {
		r.mistake(key, "it names nothing: write names with commas between them, or remove it")
	}
	var found []trigger.Object
	for _, entry := range list {
		o, err := trigger.ParseObject(r.kind.Resource() + "/" + entry)
		if err == nil {
			found = append(found, o)
			continue
		}
		matched, err := match(entry, used)
		if err != nil {
			r.mistake(key, "%.260q %v", entry, err)
		}
		found = append(found, matched...)
	}
	return found
}

// match returns the sources whose whole names match a pattern.
func match(pattern string, used []trigger.Object) ([]trigger.Object, error) {
	switch {
	case len(pattern) > longestPattern:
		return nil, fmt.Errorf("has %d bytes, more than %d: write the names", len(pattern), longestPattern)
	case strings.Contains(pattern, "{"):
		return nil, errors.New("has a brace: write the names")
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("is neither a name nor a regular expression: %w", err)
	}
	expression.Longest() // A match of the whole name is the longest one.
	matched := slices.DeleteFunc(slices.Clone(used), func(o trigger.Object) bool { return expression.FindString(o.Name) != o.Name })
	if len(matched) == 0 {
		return nil, errors.New("matches nothing that the pod template uses: write the names")
	}
	return matched, nil
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

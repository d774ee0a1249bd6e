// Package trigger holds what a user and the rollout controller write on a workload: the names of
// annotations and labels, the objects that a workload is triggered by, and which copies of them its
// pods use.
//
// It does not know workloads, pod templates, clients or copies themselves.
package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// The annotations that users write on a workload.
const (
	// TriggeredBy is the annotation by which a workload opts in, such as configmap/foo,secret/bar.
	TriggeredBy = api.Domain + "/triggered-by"
	// TriggeredByFirst is the name that TriggeredBy was first proposed under. It counts where
	// TriggeredBy is not.
	TriggeredByFirst = "deployment.kubernetes.io/triggered-by"
	// AfterUndo is the annotation that decides what an edit does after an undo: Roll or Pause.
	AfterUndo = api.Domain + "/after-undo"
	// WhileFailing is the annotation that decides what an edit does while the rollout before it is
	// failing: Hold or Roll.
	WhileFailing = api.Domain + "/while-failing"
)

// Wishes returns the annotations by which a workload chooses how it is treated.
func Wishes() []string { return []string{AfterUndo, WhileFailing} }

// The values of AfterUndo and WhileFailing.
const (
	Roll  = "roll"
	Pause = "pause"
	Hold  = "hold"
)

// The annotations and labels that the controller writes.
const (
	// ConfigAnnotation is on the pod template: a Config as JSON. It goes with the template, also
	// when that is undone.
	ConfigAnnotation = api.Domain + "/config"
	// RolloutLabel is on the workload: the Mark of what was rolled out last. It is a label because
	// `kubectl rollout undo` brings the annotations of a Deployment back with its template, and
	// labels not.
	RolloutLabel = api.Domain + "/rollout"
	// UndoneAnnotation is on a workload whose last rollout was undone: an Undone as JSON. A user
	// who removes it resumes rollouts.
	UndoneAnnotation = api.Domain + "/undone"
)

// Compare orders by kind and name.
func Compare(a, b api.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// kinds are the names that kubectl has for what can trigger.
func kinds(text string) (api.Kind, bool) {
	switch strings.ToLower(text) {
	case "configmap", "configmaps", "cm":
		return api.ConfigMap, true
	case "secret", "secrets":
		return api.Secret, true
	default:
		return "", false
	}
}

// ParseObject reads one object, such as configmap/foo. It takes the plurals and short names of
// kubectl.
func ParseObject(text string) (api.Ref, error) {
	kindName, name, found := strings.Cut(text, "/")
	kind, known := kinds(kindName)
	switch {
	case !found:
		return api.Ref{}, fmt.Errorf("%.50q names no kind: write %.60q or %.60q", text, "configmap/"+text, "secret/"+text)
	case !known:
		return api.Ref{}, fmt.Errorf("%.50q is of kind %.50q, which cannot trigger: write configmap/NAME or secret/NAME",
			text, kindName)
	}
	namespace, rest, hasNamespace := strings.Cut(name, "/")
	switch {
	case hasNamespace && isName(namespace) && isName(rest):
		return api.Ref{}, fmt.Errorf("%.300q has a namespace: triggers are objects of the workload's own "+
			"namespace, write %s/%s",
			text, kind.Resource(), rest)
	case !isName(name):
		return api.Ref{}, fmt.Errorf(`%.300q names no object: a name has up to 253 of a-z (lower case), 0-9, `+
			`"-" and ".", first and last a letter or digit`, text)
	}
	return api.Ref{Kind: kind, Name: name}, nil
}

func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// MaxObjects is how many objects can trigger a workload. Each costs requests, and anybody may write
// the annotation.
const MaxObjects = 256

// mostMistakes is how many mistakes of a list are reported. The message goes into an Event and into
// the log, as often as somebody edits the list.
const mostMistakes = 20

// Join returns an error that lists the first 20 mistakes, one on each line, and counts the rest. It
// is nil for none.
func Join(mistakes []string) error {
	if len(mistakes) == 0 {
		return nil
	}
	if more := len(mistakes) - mostMistakes; more > 0 {
		mistakes = append(slices.Clone(mistakes[:mostMistakes]), fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(mistakes, "\n"))
}

// Parse reads a list of objects with commas between them, as the value of TriggeredBy is. It
// returns each once and in order, and the mistakes as [Join] does.
func Parse(text string) ([]api.Ref, error) {
	if entries := strings.Count(text, ",") + 1; entries > MaxObjects {
		return nil, fmt.Errorf("has %d entries, more than %d", entries, MaxObjects)
	}
	var found []api.Ref
	var mistakes []string
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue // A comma too many.
		}
		object, err := ParseObject(entry)
		if err != nil {
			mistakes = append(mistakes, err.Error())
			continue
		}
		found = append(found, object)
	}
	if len(found)+len(mistakes) == 0 {
		return nil, errors.New("names nothing: write configmap/NAME, secret/NAME, or several with commas between them")
	}
	slices.SortFunc(found, Compare)
	return slices.Compact(found), Join(mistakes)
}

// Format is the inverse of Parse.
func Format(objects []api.Ref) string {
	texts := make([]string, len(objects))
	for i, o := range objects {
		texts[i] = o.String()
	}
	return strings.Join(texts, ",")
}

// Wanted returns the value of TriggeredBy among a workload's annotations, by whichever name, and
// whether it is there.
func Wanted(annotations map[string]string) (value, key string, found bool) {
	for _, key := range []string{TriggeredBy, TriggeredByFirst} {
		if value, found := annotations[key]; found {
			return value, key, true
		}
	}
	return "", TriggeredBy, false
}

package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest/objects"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// object is an object of a manifest, as far as annotations of Reloader are about it.
type object struct {
	path manifest.Path
	// err is why the object cannot be read.
	err error

	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

func objectsIn(document manifest.Document) []object {
	var all []object
	for path, data := range objects.All(document.Data) {
		is := object{path: path}
		is.err = manifest.Convert(data, &is)
		all = append(all, is)
	}
	return all
}

func foreign(annotations map[string]string) []string {
	keys := slices.Sorted(maps.Keys(annotations))
	return slices.DeleteFunc(keys, func(key string) bool { return !reloader.IsForeign(key) })
}

func (is object) isSource() bool {
	return is.Kind == string(api.ConfigMap) || is.Kind == string(api.Secret)
}

// isRolledOut reports whether the controller rolls out objects of this kind.
func (is object) isRolledOut() bool {
	return slices.Contains([]workload.Kind{workload.Deployment, workload.StatefulSet, workload.DaemonSet},
		workload.Kind(is.Kind))
}

// asks returns what decides about the triggers of a workload, and the mistakes of its volumes.
func (is object) asks(in template.Place) (reloader.Workload, error) {
	asks := reloader.Workload{Annotations: is.Metadata.Annotations, Template: is.Spec.Template.Annotations}
	uses, err := template.Uses(&is.Spec.Template, in)
	// Without a config, all names are of sources.
	config, _ := trigger.ParseConfig(asks.Template[trigger.ConfigAnnotation])
	originals := versions.Originals(config, in.Namespace)
	for _, use := range uses {
		if of, isCopy := originals[use.Object.In(in.Namespace)]; isCopy {
			use.Object.Name = of.Name
		}
		asks.Used = append(asks.Used, use.Object)
	}
	return asks, err
}

// readMarks stores the marks of the ConfigMaps and Secrets of the manifests. A manifest that cannot
// be read is reported when it is converted.
func (o *command) readMarks(files []manifest.File) {
	o.marks = map[api.Ref]reloader.Mark{}
	for _, file := range files {
		for document, err := range file.Documents() {
			if err != nil {
				continue
			}
			for _, is := range objectsIn(document) {
				if is.isSource() {
					source := api.Ref{Kind: api.Kind(is.Kind), Name: is.Metadata.Name}
					o.marks[source.In(o.namespace(is))] = reloader.MarkOf(is.Metadata.Annotations)
				}
			}
		}
	}
}

func (o *command) namespace(is object) string {
	return session.NamespaceOr(o.Session, is.Metadata.Namespace)
}

func (o *command) annotations(file string, document manifest.Document) []manifest.Replacement {
	if o.to == toInTree || len(o.names) > 0 {
		return nil
	}
	var list []manifest.Replacement
	for _, is := range objectsIn(document) {
		say := func(format string, args ...any) {
			line := document.Line(is.path.Field("metadata", "annotations"))
			o.Remark("%s:%d: %s/%s: %s", file, line, is.Kind, is.Metadata.Name, fmt.Sprintf(format, args...))
		}
		if marks := foreign(is.Metadata.Annotations); is.isSource() && len(marks) > 0 {
			say("note: it keeps %s: remove this when no workload has annotations of Reloader any more",
				strings.Join(marks, " and "))
		}
		replacements, err := o.triggers(is, say)
		if err != nil {
			o.refused++
			say("annotations of Reloader: not converted: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		list = append(list, replacements...)
	}
	return list
}

// triggers returns what makes annotations of Reloader the annotation by which the rollout
// controller is triggered.
func (o *command) triggers(is object, say func(string, ...any)) ([]manifest.Replacement, error) {
	asks, err := is.asks(template.Place{Namespace: o.namespace(is), Driver: o.driver})
	_, _, hasTriggers := trigger.Wanted(asks.Annotations)
	switch {
	case !asks.IsAsking():
		return nil, nil
	case !is.isRolledOut():
		return nil, errors.New("the rollout controller knows Deployments, StatefulSets and DaemonSets")
	case is.err != nil:
		return nil, fmt.Errorf("it is not what the API server takes: %w", is.err)
	case err != nil:
		return nil, fmt.Errorf("the pod template: %w", err)
	}
	var unknown []api.Ref
	triggers, err := asks.Triggers(func(source api.Ref) reloader.Mark {
		mark, isKnown := o.marks[source.In(o.namespace(is))]
		if !isKnown && !slices.Contains(unknown, source) {
			unknown = append(unknown, source)
		}
		return mark
	})
	if err != nil {
		return nil, err
	}
	if !hasTriggers {
		remarkUnknown(say, unknown, triggers)
		if len(triggers) == 0 {
			return nil, errors.New("by what the manifests hold, nothing triggers it")
		}
	}
	for _, key := range slices.Concat(foreign(asks.Annotations), foreign(asks.Template)) {
		if !reloader.IsRead(key) {
			say("note: %s has no counterpart, and stays", key)
		}
	}
	o.converted++
	return is.replaced(triggers), nil
}

// remarkUnknown prints what depends on annotations of sources that are not among the manifests.
func remarkUnknown(say func(string, ...any), unknown, triggers []api.Ref) {
	var with, without []api.Ref
	for _, source := range unknown {
		if slices.Contains(triggers, source) {
			with = append(with, source)
			continue
		}
		without = append(without, source)
	}
	if len(with) > 0 {
		say("note: not among the manifests: %s; if one has %s, take it off %s", trigger.Format(with), reloader.Ignore,
			trigger.TriggeredBy)
	}
	if len(without) > 0 {
		say("note: not among the manifests: %s; if one has %s, add it to %s", trigger.Format(without), reloader.Match,
			trigger.TriggeredBy)
	}
}

// replaced returns what removes the annotations of Reloader that are read, and adds the triggers
// where the workload has none.
func (is object) replaced(triggers []api.Ref) []manifest.Replacement {
	inTemplate := is.path.Field("spec", "template", "metadata")
	list := removed(inTemplate, is.Spec.Template.Annotations)
	metadata, annotations := is.path.Field("metadata"), is.Metadata.Annotations
	added := manifest.Replacement{
		Object: metadata.Field("annotations"), To: trigger.TriggeredBy, Value: trigger.Format(triggers),
	}
	_, _, hasTriggers := trigger.Wanted(annotations)
	read := read(annotations)
	switch {
	case hasTriggers:
		return append(list, removed(metadata, annotations)...)
	case len(annotations) == 0:
		return append(list, manifest.Replacement{
			Object: metadata, To: "annotations", Value: map[string]any{added.To: added.Value},
		})
	case len(read) > 0:
		added.From, read = read[0], read[1:]
	}
	list = append(list, added)
	for _, key := range read {
		list = append(list, manifest.Replacement{Object: added.Object, From: key})
	}
	return list
}

// read returns the annotations that have become triggers, in order.
func read(annotations map[string]string) []string {
	return slices.DeleteFunc(foreign(annotations), func(key string) bool { return !reloader.IsRead(key) })
}

// removed returns what removes the annotations that have become triggers from an object.
func removed(metadata manifest.Path, annotations map[string]string) []manifest.Replacement {
	var list []manifest.Replacement
	for _, key := range read(annotations) {
		list = append(list, manifest.Replacement{Object: metadata.Field("annotations"), From: key})
	}
	if len(list) > 0 && len(list) == len(annotations) {
		return []manifest.Replacement{{Object: metadata, From: "annotations"}}
	}
	return list
}

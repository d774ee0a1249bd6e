package preview

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest/objects"
)

// Pod is a pod, or what pods are made from: the template of an object of whatever kind.
type Pod struct {
	APIVersion, Kind, Namespace, Name string
	// Field is where in the object the spec is, such as spec.template.spec.
	Field string
	Spec  corev1.PodSpec
	// Annotations are the pod's.
	Annotations map[string]string
}

// Object names the object, such as deployment/web.
func (p Pod) Object() string { return strings.ToLower(p.Kind) + "/" + p.Name }

// IsSame reports whether two are the same place of one object, whatever is there.
func (p Pod) IsSame(other Pod) bool {
	groupOf := func(p Pod) string {
		group, _, found := strings.Cut(p.APIVersion, "/")
		if !found {
			return ""
		}
		return group
	}
	return groupOf(p) == groupOf(other) && p.Kind == other.Kind && p.Namespace == other.Namespace && p.Name == other.Name &&
		p.Field == other.Field
}

// Set is what manifests have: pods, and ConfigMaps and Secrets.
type Set struct {
	Pods     []Pod
	contents map[api.Ref]api.Content
}

// Content returns what an object of the set holds.
func (s *Set) Content(ref api.Ref) (api.Content, bool) {
	content, found := s.contents[ref]
	return content, found
}

// Add adds an object, or those of a list, in a namespace unless they name another. Objects without
// pods, ConfigMaps and Secrets are passed over. Of two of one name the later one counts, as it does
// when both are applied.
func (s *Set) Add(data any, namespace string) error {
	object, ok := data.(map[string]any)
	if !ok {
		return nil
	}
	if elements, isList := objects.Elements(object); isList {
		var errs []error
		for _, element := range elements {
			errs = append(errs, s.Add(element, namespace))
		}
		return errors.Join(errs...)
	}
	if version := object["apiVersion"]; version == "v1" && objects.IsServed(object) {
		return s.addContent(object, namespace)
	}
	return s.addPods(object, namespace)
}

// addContent takes in a ConfigMap or a Secret. An object that the API server refuses is an error:
// no driver ever sees it. One whose name the API server makes up is passed over, since no pod can
// name it.
func (s *Set) addContent(object map[string]any, namespace string) error {
	metadata, _ := object["metadata"].(map[string]any)
	if generated, _ := metadata["generateName"].(string); generated != "" && metadata["name"] == nil {
		return nil
	}
	content, mistakes := objects.Content(object, namespace)
	var errs []error
	for _, m := range mistakes {
		errs = append(errs, fmt.Errorf("%s/%s: %s", content.Ref.Kind.Resource(), content.Ref.Name, m))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if s.contents == nil {
		s.contents = map[api.Ref]api.Content{}
	}
	s.contents[content.Ref] = content
	return nil
}

func (s *Set) addPods(object map[string]any, namespace string) error {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	generated, _ := metadata["generateName"].(string)
	own, _ := metadata["namespace"].(string)
	for _, found := range (manifest.Document{Data: object}).PodSpecs() {
		pod := Pod{
			APIVersion: version, Kind: kind, Namespace: cmp.Or(own, namespace), Name: cmp.Or(name, generated), Field: found.Path.String(),
		}
		if err := decode(found.Data, &pod.Spec); err != nil {
			return fmt.Errorf("%s: %s: %w", pod.Object(), pod.Field, err)
		}
		pod.Annotations = annotationsAt(object, found.Path)
		s.Pods = slices.DeleteFunc(s.Pods, pod.IsSame)
		s.Pods = append(s.Pods, pod)
	}
	return nil
}

// annotationsAt returns those of the object whose spec a path leads to.
func annotationsAt(object map[string]any, spec manifest.Path) map[string]string {
	var at any = object
	for _, step := range spec[:max(0, len(spec)-1)] {
		switch around := at.(type) {
		case map[string]any:
			at = around[step.Field]
		case []any:
			at = around[step.Index]
		}
	}
	holder, _ := at.(map[string]any)
	metadata, _ := holder["metadata"].(map[string]any)
	written, _ := metadata["annotations"].(map[string]any)
	annotations := make(map[string]string, len(written))
	for key, value := range written {
		annotations[key], _ = value.(string)
	}
	return annotations
}

// decode reads a value as the API server would.
func decode(data map[string]any, into any) error {
	text, err := json.Marshal(data)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		kind, _ := data["kind"].(string)
		metadata, _ := data["metadata"].(map[string]any)
		if name, _ := metadata["name"].(string); kind != "" {
			return fmt.Errorf("%s/%s is not what the API server takes: %w", strings.ToLower(kind), name, err)
		}
		return fmt.Errorf("it is not what the API server takes: %w", err)
	}
	return nil
}

package preview

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/volumes/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
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

// Add takes in an object, or a list of some, in a namespace unless it says its own. What is no pod, ConfigMap or Secret is
// passed over. Of two of one name the later one counts, as it does when both are applied.
func (s *Set) Add(data any, namespace string) error {
	object, ok := data.(map[string]any)
	if !ok {
		return nil
	}
	kind, _ := object["kind"].(string)
	if list, isList := object["items"].([]any); isList && strings.HasSuffix(kind, "List") {
		var errs []error
		for _, element := range list {
			errs = append(errs, s.Add(element, namespace))
		}
		return errors.Join(errs...)
	}
	version, _ := object["apiVersion"].(string)
	switch {
	case kind == string(api.ConfigMap) && version == "v1":
		return s.addConfigMap(object, namespace)
	case kind == string(api.Secret) && version == "v1":
		return s.addSecret(object, namespace)
	default:
		return s.addPods(object, namespace)
	}
}

func (s *Set) addConfigMap(object map[string]any, namespace string) error {
	var m corev1.ConfigMap
	if err := decode(object, &m); err != nil {
		return err
	}
	m.Namespace = cmp.Or(m.Namespace, namespace)
	for _, key := range slices.Sorted(maps.Keys(m.Data)) {
		if _, found := m.BinaryData[key]; found {
			return fmt.Errorf("configmap/%s: the API server refuses key %q, which is in data and in binaryData", m.Name, key)
		}
	}
	return s.add(source.ContentOfConfigMap(&m))
}

// addSecret puts what stringData has into data, as the API server does.
func (s *Set) addSecret(object map[string]any, namespace string) error {
	var secret corev1.Secret
	if err := decode(object, &secret); err != nil {
		return err
	}
	secret.Namespace = cmp.Or(secret.Namespace, namespace)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	return s.add(source.ContentOfSecret(&secret))
}

// mostBytes is how much the API server takes for one object.
const mostBytes = 1 << 20

// add refuses what the API server refuses: no driver ever sees it.
func (s *Set) add(content api.Content) error {
	name := content.Ref.Kind.Resource() + "/" + content.Ref.Name
	for _, key := range slices.Sorted(maps.Keys(content.Data)) {
		if problems := validation.IsConfigMapKey(key); len(problems) > 0 {
			return fmt.Errorf("%s: the API server refuses key %.70q: %s", name, key, strings.Join(problems, "; "))
		}
	}
	if size := content.Size(); size > mostBytes {
		return fmt.Errorf("%s: the API server refuses %d bytes, the most is %d", name, size, mostBytes)
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

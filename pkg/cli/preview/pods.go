package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest/objects"
)

func (o *command) compare(ctx context.Context, pods []Pod) error {
	var errs []error
	differs := false
	for _, pod := range pods {
		text, err := o.difference(ctx, pod)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", pod.Object(), err))
		}
		differs = differs || text != ""
		if _, err := fmt.Fprint(o.Out, printing.Plain(text)); err != nil {
			return err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err // Whether there are such volumes is not known of all pods.
	}
	if err := o.verdict(); err != nil || !differs {
		return err
	}
	return &session.Exit{Code: exitDiffers}
}

// difference returns what changes in the volumes of one pod. The error counts those that cannot be
// compared.
func (o *command) difference(ctx context.Context, pod Pod) (string, error) {
	live, err := o.live(pod)
	if err != nil {
		return "", err
	}
	var before []Volume
	if live == nil {
		o.Remark("note: %s: namespace %s has none yet", pod.Object(), pod.Namespace)
	} else {
		before = o.wanted(Volumes(*live, o.driver, o.shown(ctx), o.content(ctx), o.members(ctx, &Set{})))
	}
	for _, v := range before {
		if v.Err != nil {
			o.Remark("note: %s: volume %s: of what it holds now nothing is known: %v", pod.Object(), v.Name, v.Err)
		}
	}
	all := o.volumes(ctx, pod)
	isUnknown := func(v Volume) bool {
		return slices.ContainsFunc(all, func(other Volume) bool { return other.Name == v.Name && other.Err != nil })
	}
	before, after := slices.DeleteFunc(before, isUnknown), slices.DeleteFunc(slices.Clone(all), isUnknown)
	text := Difference(pod, before, after)
	if unknown := len(all) - len(after); unknown > 0 {
		return text, fmt.Errorf("%d of %d volumes cannot be compared: see above", unknown, len(all))
	}
	return text, nil
}

func (o *command) podsNamed(namespace, selector string, args []string) ([]Pod, error) {
	infos, err := resource.NewBuilder(o).Unstructured().ContinueOnError().NamespaceParam(namespace).DefaultNamespace().
		LabelSelectorParam(selector).ResourceTypeOrNameArgs(selector == "", args...).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return nil, fmt.Errorf("nothing was found in namespace %s", namespace)
	}
	var pods []Pod
	var errs []error
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: it is not an object", selection.Subject(info)))
			continue
		}
		var made Set // Of this one alone: it may be named twice.
		err := made.Add(object.Object, namespace)
		if err == nil && len(made.Pods) == 0 {
			err = errors.New("it makes no pods: name a deployment, statefulset, daemonset, job, cronjob or pod")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", selection.Subject(info), err))
		}
		pods = append(pods, made.Pods...)
	}
	return pods, errors.Join(errs...)
}

// live returns what an object has now; nil if it is not in the cluster.
func (o *command) live(pod Pod) (*Pod, error) {
	if pod.Name == "" {
		return nil, errors.New("it has no name, so no object of the cluster can be compared with it")
	}
	kind := pod.Kind
	if group, version, found := strings.Cut(pod.APIVersion, "/"); found {
		kind += "." + version + "." + group
	}
	found, err := o.podsNamed(pod.Namespace, "", []string{kind + "/" + pod.Name})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	i := slices.IndexFunc(found, pod.IsSame)
	if err != nil || i < 0 {
		return nil, err
	}
	return &found[i], nil
}

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
	kind := schema.FromAPIVersionAndKind(p.APIVersion, p.Kind).GroupKind()
	return kind == schema.FromAPIVersionAndKind(other.APIVersion, other.Kind).GroupKind() &&
		p.Namespace == other.Namespace && p.Name == other.Name && p.Field == other.Field
}

// Set is what manifests have: pods, and ConfigMaps and Secrets.
type Set struct {
	Pods     []Pod
	contents map[api.Ref]api.Content
	metadata map[api.Ref]metav1.ObjectMeta // With labels and annotations.
}

// Members returns the objects of the set that a selection finds. Those that the cluster does not
// have are the youngest.
func (s *Set) Members(selection api.Ref) []Member {
	var found []Member
	matches := selection.Matcher()
	for ref, has := range s.metadata {
		if matches(ref, has.Labels) {
			found = append(found, Member{Ref: ref, Created: youngest(), Annotations: has.Annotations})
		}
	}
	return found
}

// youngest is the age of objects that do not exist yet.
func youngest() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// Content returns what an object of the set holds.
func (s *Set) Content(ref api.Ref) (api.Content, bool) {
	content, found := s.contents[ref]
	return content, found
}

// Add adds an object, or those of a list, in a namespace unless they name another. Objects without
// pods, ConfigMaps and Secrets are passed over. Of two of one name the later one counts, as it does
// when both are applied.
func (s *Set) Add(data any, namespace string) error {
	var errs []error
	for _, object := range objects.All(data) {
		add := s.addPods
		if object["apiVersion"] == "v1" && objects.IsServed(object) {
			add = s.addContent
		}
		errs = append(errs, add(object, namespace))
	}
	return errors.Join(errs...)
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
		s.contents, s.metadata = map[api.Ref]api.Content{}, map[api.Ref]metav1.ObjectMeta{}
	}
	u := unstructured.Unstructured{Object: object}
	s.metadata[content.Ref] = metav1.ObjectMeta{Labels: u.GetLabels(), Annotations: u.GetAnnotations()}
	s.contents[content.Ref] = content
	return nil
}

func (s *Set) addPods(object map[string]any, namespace string) error {
	u := unstructured.Unstructured{Object: object}
	for _, found := range (manifest.Document{Data: object}).PodSpecs() {
		pod := Pod{
			APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: cmp.Or(u.GetNamespace(), namespace),
			Name: cmp.Or(u.GetName(), u.GetGenerateName()), Field: found.Path.String(),
		}
		// Without them there are no copies.
		pod.Annotations, _, _ = unstructured.NestedStringMap(found.Metadata, "annotations")
		if err := manifest.Convert(found.Data, &pod.Spec); err != nil {
			return fmt.Errorf("%s: %s: it is not what the API server takes: %w", pod.Object(), pod.Field, err)
		}
		s.Pods = slices.DeleteFunc(s.Pods, pod.IsSame)
		s.Pods = append(s.Pods, pod)
	}
	return nil
}

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// The kinds of objects, as attributes call them.
const (
	configMapKind = "configMap"
	secretKind    = "secret"
)

// object is a ConfigMap or a Secret of a scenario.
type object struct {
	kind, name string
	data       map[string]string
	binary     map[string][]byte // Of a ConfigMap.
	elsewhere  bool              // In the other namespace.
}

// resource is what the API server calls a kind.
func resource(kind string) string { return strings.ToLower(kind) + "s" }

// body is the object as the API has it.
func (o object) body(name string) runtime.Object {
	meta := metav1.ObjectMeta{Name: name}
	if o.kind == configMapKind {
		return &corev1.ConfigMap{ObjectMeta: meta, Data: o.data, BinaryData: o.binary}
	}
	return &corev1.Secret{ObjectMeta: meta, StringData: o.data}
}

// place is the object's namespace.
func (m *mirror) place(o object) string {
	if o.elsewhere {
		return m.elsewhere
	}
	return m.namespace
}

func (m *mirror) rest() rest.Interface { return m.Client().CoreV1().RESTClient() }

// put makes objects, or gives those that exist other data.
func (p *mirrorPod) put(t *testing.T, objects ...object) {
	t.Helper()
	for _, o := range objects {
		name := p.name(o.name)
		err := p.rest().Put().Namespace(p.place(o)).Resource(resource(o.kind)).Name(name).Body(o.body(name)).Do(t.Context()).Error()
		if apierrors.IsNotFound(err) {
			err = p.rest().Post().Namespace(p.place(o)).Resource(resource(o.kind)).Body(o.body(name)).Do(t.Context()).Error()
		}
		must(t, err)
	}
}

// drop deletes objects.
func (p *mirrorPod) drop(t *testing.T, objects ...object) {
	t.Helper()
	for _, o := range objects {
		err := p.rest().Delete().Namespace(p.place(o)).Resource(resource(o.kind)).Name(p.name(o.name)).Do(t.Context()).Error()
		must(t, err)
	}
}

// wantLocked makes OBJECT immutable and looks what may still be done to it, and that the files have what was last allowed.
func (p *mirrorPod) wantLocked(t *testing.T) {
	t.Helper()
	patch := func(value map[string]any) error {
		text, err := json.Marshal(value)
		must(t, err)
		return p.rest().Patch(types.MergePatchType).Namespace(p.namespace).Resource(resource(p.lock)).Name(p.object).
			Body(text).Do(t.Context()).Error()
	}
	with := func(field, key string, value any) map[string]any {
		return map[string]any{field: map[string]any{key: value}}
	}
	data := func(text string) any {
		return map[string]any{configMapKind: text, secretKind: []byte(text)}[p.lock]
	}
	for _, step := range []struct {
		patch   map[string]any
		allowed bool
	}{
		{with("data", "data-4", data("value-4")), true},
		{map[string]any{"immutable": true}, true},
		{with("data", "data-5", data("value-5")), false},
		{map[string]any{"immutable": false}, false},
		{with("metadata", "labels", map[string]string{"label1": "value1"}), true},
	} {
		err := patch(step.patch)
		if step.allowed && err != nil || !step.allowed && !apierrors.IsInvalid(err) {
			t.Fatalf("the change %v: got error %v, want it allowed: %t, else invalid", step.patch, err, step.allowed)
		}
	}
	want := files{"/config/data-4": "-rw-r--r-- 0 0 value-4"}
	maps.Copy(want, p.want)
	p.wantFiles(t, "", want)
	p.drop(t, object{kind: p.lock, name: "OBJECT"})
	if p.lock == secretKind { // Nobody watches a ConfigMap that can change no more, so nobody notices that it is gone.
		p.awaitEvent(t, p.pod, "SourceMissing", p.object)
	}
	p.wantFiles(t, "", want)
}

// allowSecrets lets the default service account of a namespace read its Secrets, as the README says.
func (s *site) allowSecrets(t testing.TB, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "read-secrets"}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := s.Client().RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}},
	}
	if _, err := s.Client().RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// inTree is the kubelet's own volume for the same attributes.
func inTree(t testing.TB, attributes map[string]string) corev1.VolumeSource {
	t.Helper()
	var mode *int32
	if text, ok := attributes["defaultMode"]; ok {
		n, err := strconv.ParseInt(text, 8, 32)
		must(t, err)
		mode = new(int32(n))
	}
	var items []corev1.KeyToPath
	var sources []corev1.VolumeProjection
	for key, into := range map[string]any{"items": &items, "sources": &sources} {
		if err := yaml.UnmarshalStrict([]byte(attributes[key]), into); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	switch {
	case attributes[configMapKind] != "":
		name := corev1.LocalObjectReference{Name: attributes[configMapKind]}
		source := &corev1.ConfigMapVolumeSource{LocalObjectReference: name, Items: items, DefaultMode: mode}
		return corev1.VolumeSource{ConfigMap: source}
	case attributes[secretKind] != "":
		source := &corev1.SecretVolumeSource{SecretName: attributes[secretKind], Items: items, DefaultMode: mode}
		return corev1.VolumeSource{Secret: source}
	}
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: mode}}
}

// awaitEvent waits for an Event on a pod whose message has a text, without asking for it again and again.
func (s *site) awaitEvent(t testing.TB, pod *corev1.Pod, reason, text string) {
	t.Helper()
	selector := metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID) + ",reason=" + reason}
	await(t, startTimeout, func(ctx context.Context) (watch.Interface, error) {
		return s.Client().CoreV1().Events(pod.Namespace).Watch(ctx, selector)
	}, func(_ watch.EventType, event *corev1.Event) error {
		if strings.Contains(event.Message, text) {
			return nil
		}
		return fmt.Errorf("the Event %s on pod %s says %q, want %q", reason, pod.Name, event.Message, text)
	})
}

// awaitPods waits until check, which is told each pod of a namespace and then each change of one, returns nil.
func (s *site) awaitPods(
	t testing.TB, within time.Duration, namespace string, check func(watch.EventType, *corev1.Pod) error,
) {
	t.Helper()
	await(t, within, func(ctx context.Context) (watch.Interface, error) {
		return s.Client().CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	}, check)
}

// await reads a watch until check returns nil, and fails the test with its last error when that takes too long.
func await[T runtime.Object](
	t testing.TB, within time.Duration, open func(context.Context) (watch.Interface, error), check func(watch.EventType, T) error,
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	last := errors.New("there is none")
	for ctx.Err() == nil { // The API server ends a watch whose reader does not keep up, and tells a new one what there is.
		w, err := open(ctx)
		must(t, err)
		for event := range w.ResultChan() {
			got, ok := event.Object.(T)
			if !ok {
				t.Fatalf("the watch ends with %v", event.Object)
			}
			if last = check(event.Type, got); last == nil {
				w.Stop()
				return
			}
		}
		w.Stop()
	}
	t.Fatalf("after %s: %v", within, last)
}

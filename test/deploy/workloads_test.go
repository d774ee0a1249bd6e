package deploy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	podtemplate "github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// usesAll is the spec of a workload that has every field by which a pod can name a source, and fields that are like them.
const usesAll = `
selector: {matchLabels: {app: web}}
template:
  metadata: {labels: {app: web}, annotations: {note: a}}
  spec:
    initContainers:
      - name: prepare
        image: prepare
        env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a, optional: true}}}]
        envFrom: [{secretRef: {name: password}}, {prefix: B_, configMapRef: {name: settings}}]
    containers:
      - name: web
        image: web
        env:
          - {name: A, value: a}
          - {name: B, valueFrom: {secretKeyRef: {name: password, key: b}}}
          - {name: C, valueFrom: {configMapKeyRef: {name: settings, key: c}}}
          - {name: D, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        envFrom: [{configMapRef: {name: settings, optional: true}}, {secretRef: {name: password}}]
        volumeMounts: [{name: a, mountPath: /a}]
    volumes:
      - {name: a, configMap: {name: settings, items: [{key: a, path: b}]}}
      - {name: b, secret: {secretName: password, optional: true}}
      - name: c
        projected:
          sources: [{configMap: {name: settings}}, {secret: {name: password}}, {downwardAPI: {}}, {configMap: {name: name-0123456789}}]
      - {name: d, csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {configMap: settings}}}
      - {name: e, csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {secret: password, items: "[{key: a, path: b}]"}}}
      - name: f
        csi:
          driver: csi.liveconfig.internal
          readOnly: true
          volumeAttributes:
            sources: |
              - configMap: {name: settings, items: [{key: name, path: "hostname: a"}, {key: b, path: "name:b"}, {key: c, path: 'a name: c'}, {key: d, path: name:d}]} # name: settings
              - secret: {"name":"password", namespace: other}
              - secret: {optional: true, 'name' : 'password'}
              - configMap: {name: 1e}
              - configMap: # the name
                  name: # nnn
                    LONG
      - {name: g, csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {sources: '[{secret: {name: "pass\u0077ord"}}]'}}}
      - {name: h, csi: {driver: csi.example.org, readOnly: true, volumeAttributes: {configMap: settings, sources: "name: settings"}}}
      - {name: i, configMap: {name: LONG}}
      - {name: j, emptyDir: {}}
      - {name: k, projected: {}}
`

// long is a name that its copies have the beginning of.
func long() string { return strings.Repeat("a", 241) + "." + strings.Repeat("b", 9) }

// thief has the controller's token, and every right in the team's namespace: what stops it is a policy.
type thief struct {
	*installed
	client kubernetes.Interface
}

func newThief(t *testing.T, values ...string) *thief {
	t.Helper()
	in := installController(t, set(values...))
	account := in.namespace + "-controller"
	_, err := in.cluster.Client().RbacV1().RoleBindings(in.team).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "thief"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: in.namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &thief{in, in.clientOf(t)}
}

// clientOf returns a client with the controller's token.
func (in *installed) clientOf(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := in.cluster.ServiceAccountConfig(t.Context(), in.namespace, in.namespace+"-controller")
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// workloads creates a workload of each kind.
func (by *thief) workloads(t *testing.T) {
	t.Helper()
	var texts []string
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		spec := map[string]any{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(usesAll, "LONG", long())), &spec); err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "apps/v1", "kind": kind, "spec": spec, "metadata": map[string]any{
				"name": "web", "namespace": by.team, "labels": map[string]string{"app": "web"},
				"annotations": map[string]string{trigger.TriggeredBy: "configmap/settings", trigger.AfterUndo: trigger.Pause},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	by.applyText(t, strings.Join(texts, "---\n"))
}

// patch sends a JSON patch of a workload, or of a subresource of it.
func (by *thief) patch(t *testing.T, resource, operations string, options ...string) error {
	t.Helper()
	request := by.client.AppsV1().RESTClient().Patch(types.JSONPatchType).Namespace(by.team).Resource(resource).Name("web")
	for _, option := range options {
		if option == metav1.DryRunAll {
			request = request.Param("dryRun", option)
		} else {
			request = request.SubResource(option)
		}
	}
	return request.Body([]byte("[" + operations + "]")).Do(t.Context()).Error()
}

// patchAsAdministrator sends a JSON patch of the Deployment.
func (by *thief) patchAsAdministrator(t *testing.T, operations string) error {
	t.Helper()
	deployments := by.cluster.Client().AppsV1().Deployments(by.team)
	_, err := deployments.Patch(t.Context(), "web", types.JSONPatchType, []byte("["+operations+"]"), metav1.PatchOptions{})
	return err
}

// template returns the pod template of a workload.
func (by *thief) template(t *testing.T, resource string) *corev1.PodTemplateSpec {
	t.Helper()
	var found struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	text, err := by.client.AppsV1().RESTClient().Get().Namespace(by.team).Resource(resource).Name("web").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	return &found.Spec.Template
}

// pointed returns the operations by which the controller makes a template name other objects.
func (by *thief) pointed(t *testing.T, resource string, names map[string]string) string {
	t.Helper()
	to := map[api.Ref]string{}
	for from, name := range names {
		to[api.Ref{Kind: api.ConfigMap, Name: from}], to[api.Ref{Kind: api.Secret, Name: from}] = name, name
	}
	changes, err := podtemplate.Point(by.template(t, resource), podtemplate.Place{Namespace: by.team, Driver: "csi.liveconfig.internal"}, to)
	if err != nil {
		t.Fatal(err)
	}
	var operations []string
	for _, change := range changes {
		operations = append(operations, fmt.Sprintf(`{"op": "replace", "path": "/spec/template%s", "value": %s}`, change.Pointer, quoted(t, change.To)))
	}
	return strings.Join(operations, ", ")
}

func quoted(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func resources() []string { return []string{"deployments", "statefulsets", "daemonsets"} }

// add is an operation that adds or replaces a value, which is JSON.
func add(path, value string) string {
	return fmt.Sprintf(`{"op": "add", "path": %q, "value": %s}`, path, value)
}

// TestTheControllerMayPointWorkloadsToCopies makes the changes that the controller makes: to copies, to newer ones, and back.
func TestTheControllerMayPointWorkloadsToCopies(t *testing.T) {
	t.Parallel()
	by := newThief(t)
	by.workloads(t)
	awaitPolicy(t, func() error { return by.patch(t, "deployments", add("/spec/paused", "true"), metav1.DryRunAll) })
	const first, second = "-0123456789", "-abcdef0123"
	cut := long()[:241]
	own := func(path, key string) string { return path + "/" + strings.ReplaceAll(key, "/", "~1") }
	const annotations, templates = "/metadata/annotations", "/spec/template/metadata/annotations"
	steps := []struct {
		names map[string]string
		also  []string
	}{
		{
			map[string]string{"settings": "settings" + first, "password": "password" + first, "1e": "1e" + first, long(): cut + first, "name-0123456789": "name-0123456789" + first},
			[]string{add(own(templates, trigger.ConfigAnnotation), `"{}"`), add("/metadata/labels", quoted(t, map[string]string{"app": "web", trigger.RolloutLabel: "a"}))},
		},
		{
			map[string]string{"settings" + first: "settings" + second, "1e" + first: "1e" + second, cut + first: cut + second},
			[]string{
				add(own(templates, trigger.ConfigAnnotation), `"{\"a\":\"b\"}"`), add(own("/metadata/labels", trigger.RolloutLabel), `"b"`),
				add(own(annotations, trigger.UndoneAnnotation), `"a"`), add(own(annotations, trigger.WhileFailing), `"roll"`),
			},
		},
		{
			map[string]string{"settings" + second: "settings", "password" + first: "password", "1e" + second: "1e", cut + second: long(), "name-0123456789" + first: "name-0123456789"},
			[]string{
				fmt.Sprintf(`{"op": "remove", "path": %q}`, own(templates, trigger.ConfigAnnotation)),
				fmt.Sprintf(`{"op": "remove", "path": %q}`, own("/metadata/labels", trigger.RolloutLabel)),
				fmt.Sprintf(`{"op": "remove", "path": %q}`, own(annotations, trigger.UndoneAnnotation)),
			},
		},
	}
	for _, resource := range resources() {
		for i, step := range steps {
			operations := by.pointed(t, resource, step.names)
			if len(operations) == 0 {
				t.Fatalf("%s, step %d: no name changes", resource, i)
			}
			if err := by.patch(t, resource, operations+", "+strings.Join(step.also, ", ")); err != nil {
				t.Errorf("%s, step %d: %v", resource, i, err)
			}
		}
	}
}

// TestTheControllerMayChangeNothingButNames tries what somebody could who has the controller's token.
func TestTheControllerMayChangeNothingButNames(t *testing.T) {
	t.Parallel()
	by := newThief(t)
	by.workloads(t)
	awaitPolicy(t, func() error { return by.patch(t, "deployments", add("/spec/paused", "true"), metav1.DryRunAll) })
	for _, resource := range resources() {
		for want, tries := range refused(t) {
			for what, operations := range tries {
				err := by.patch(t, resource, operations, metav1.DryRunAll)
				if err == nil || !strings.Contains(err.Error(), "the liveconfig controller may "+want) {
					t.Errorf("%s: to change %s = %v, want %q", resource, what, err, want)
				}
			}
		}
	}
	for _, resource := range resources()[:2] {
		wantRefused(t, "scale "+resource, by.patch(t, resource, add("/spec/replicas", "0"), "scale"))
	}
	for _, resource := range resources() {
		wantRefused(t, "write the status of "+resource, by.patch(t, resource, add("/status/observedGeneration", "7"), "status"))
	}
	generation := by.patch(t, "deployments", add(annotation("deprecated.daemonset.template.generation"), `"7"`))
	if generation == nil || !strings.Contains(generation.Error(), "may change no annotation of a workload") {
		t.Errorf("to give a Deployment what the API server gives a DaemonSet = %v, want that the policy refuses it", generation)
	}
	deployments := by.client.AppsV1().Deployments(by.team)
	_, err := deployments.UpdateScale(t.Context(), "web", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: by.team}, Spec: autoscalingv1.ScaleSpec{Replicas: 3},
	}, metav1.UpdateOptions{})
	wantRefused(t, "replace the scale of a Deployment", err)
	wantRefused(t, "delete a Deployment", deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	wantRefused(t, "delete all", deployments.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	other.Spec.Selector, other.Spec.Template = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, *by.template(t, "deployments")
	_, err = deployments.Create(t.Context(), other, metav1.CreateOptions{})
	wantRefused(t, "create a Deployment", err)
	// Nobody else is held to that.
	if err := by.patchAsAdministrator(t, container("image", `"evil"`)); err != nil {
		t.Errorf("an administrator changes an image: %v", err)
	}
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "the liveconfig controller may not") {
		t.Errorf("to %s = %v, want that the policy refuses it", what, err)
	}
}

// TestThePolicyHasRoomForLargeWorkloads: the API server refuses a change if an expression costs too much.
func TestThePolicyHasRoomForLargeWorkloads(t *testing.T) {
	t.Parallel()
	by := newThief(t)
	by.workloads(t)
	awaitPolicy(t, func() error { return by.patch(t, "deployments", add("/spec/paused", "true"), metav1.DryRunAll) })
	if err := by.patchAsAdministrator(t, replace("/spec/template/spec", quoted(t, large()))); err != nil {
		t.Fatal(err)
	}
	if err := by.patch(t, "deployments", by.pointed(t, "deployments", map[string]string{"settings": "settings-0123456789"})); err != nil {
		t.Errorf("a large workload: %v", err)
	}
}

// large is a pod spec with more names of sources than people write: 2,400 variables, and 128 KiB of attributes.
func large() corev1.PodSpec {
	var spec corev1.PodSpec
	settings := corev1.LocalObjectReference{Name: "settings"}
	for c := range 12 {
		made := corev1.Container{Name: fmt.Sprintf("web-%d", c), Image: "web"}
		for v := range 200 {
			made.Env = append(made.Env, corev1.EnvVar{Name: fmt.Sprintf("A_%d", v), ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: settings, Key: fmt.Sprintf("key-%d", v)},
			}})
		}
		spec.Containers = append(spec.Containers, made)
	}
	for v := range 100 {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: fmt.Sprintf("a-%d", v), VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: settings},
		}})
	}
	var text strings.Builder
	for i := 0; text.Len() < 54<<10; i++ {
		fmt.Fprintf(&text, "- configMap: {name: settings, items: [{key: name-%d, path: name/number-%[1]d}]}\n", i)
	}
	for _, name := range []string{"b", "c"} {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: "csi.liveconfig.internal", ReadOnly: new(true), VolumeAttributes: map[string]string{"sources": text.String()},
		}}})
	}
	return spec
}

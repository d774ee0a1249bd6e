package template_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

func items(keys ...string) []corev1.KeyToPath {
	var all []corev1.KeyToPath
	for _, key := range keys {
		all = append(all, corev1.KeyToPath{Key: key, Path: "at/" + key})
	}
	return all
}

func reference(name string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: name}
}

// containers is a template with one init container that ends, one that goes on as a sidecar, and one container. Each has
// the same variables.
func containers(from []corev1.EnvFromSource, env []corev1.EnvVar) *corev1.PodTemplateSpec {
	always := corev1.ContainerRestartPolicyAlways
	t := &corev1.PodTemplateSpec{}
	t.Spec.InitContainers = []corev1.Container{
		{Name: "init", EnvFrom: from, Env: env},
		{Name: "sidecar", EnvFrom: from, Env: env, RestartPolicy: &always},
	}
	t.Spec.Containers = []corev1.Container{{Name: "app", EnvFrom: from, Env: env}}
	return t
}

func configMapKey(name, key string, optional *bool) corev1.EnvVar {
	ref := &corev1.ConfigMapKeySelector{LocalObjectReference: reference(name), Key: key, Optional: optional}
	return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: ref}}
}

func secretKey(name, key string, optional *bool) corev1.EnvVar {
	ref := &corev1.SecretKeySelector{LocalObjectReference: reference(name), Key: key, Optional: optional}
	return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}}
}

type usesCase struct {
	in   *corev1.PodTemplateSpec
	want []template.Use
}

func testUses(t *testing.T, tests map[string]usesCase) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := uses(t, tc.in)
			if err != nil {
				t.Fatalf("Uses: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Uses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsesInVolumes(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	testUses(t, map[string]usesCase{
		"nothing": {in: volumes()},
		"volumes of other kinds": {in: volumes(
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "foo"}},
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			}}},
		)},
		"a ConfigMap, of which pods need what items name": {
			in: volumes(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference("foo"), Items: items("b", "a", "b"), Optional: &no},
			}),
			want: []template.Use{{Object: configMap("foo"), Field: "spec.volumes[1].configMap.name", Keys: []string{"a", "b"}}},
		},
		"a Secret that need not exist": {
			in: volumes(corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "tls", Items: items("a"), Optional: &yes},
			}),
			want: []template.Use{{Object: secret("tls"), Field: "spec.volumes[0].secret.secretName", Optional: true}},
		},
		"what the API lets be without a name": {in: volumes(
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}},
		)},
		"a projected volume, the same ConfigMap twice": {
			in: volumes(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference("foo"), Items: items("a")}},
				{DownwardAPI: &corev1.DownwardAPIProjection{}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: reference("tls"), Items: items("b"), Optional: &yes}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference("foo")}},
			}}}),
			want: []template.Use{
				{Object: configMap("foo"), Field: "spec.volumes[0].projected.sources[0].configMap.name", Keys: []string{"a"}},
				{Object: secret("tls"), Field: "spec.volumes[0].projected.sources[2].secret.name", Optional: true},
				{Object: configMap("foo"), Field: "spec.volumes[0].projected.sources[3].configMap.name"},
			},
		},
	})
}

func TestUsesInContainers(t *testing.T) {
	t.Parallel()
	yes := true
	env := []corev1.EnvVar{
		{Name: "X", Value: "foo"},
		configMapKey("foo", "a", nil),
		secretKey("tls", "b", nil),
		configMapKey("bar", "c", &yes),
		{Name: "X", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		secretKey("", "d", nil),
	}
	from := []corev1.EnvFromSource{
		{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference("foo")}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: reference("tls"), Optional: &yes}},
	}
	var want []template.Use
	for _, at := range []string{"spec.initContainers[0]", "spec.initContainers[1]", "spec.containers[0]"} {
		want = append(want,
			template.Use{Object: configMap("foo"), Field: at + ".envFrom[0].configMapRef.name"},
			template.Use{Object: secret("tls"), Field: at + ".envFrom[1].secretRef.name", Optional: true},
			template.Use{Object: configMap("foo"), Field: at + ".env[1].valueFrom.configMapKeyRef.name", Keys: []string{"a"}},
			template.Use{Object: secret("tls"), Field: at + ".env[2].valueFrom.secretKeyRef.name", Keys: []string{"b"}},
			template.Use{Object: configMap("bar"), Field: at + ".env[3].valueFrom.configMapKeyRef.name", Optional: true},
		)
	}
	testUses(t, map[string]usesCase{
		"one variable several times, in every container": {in: containers(from, env), want: want},
	})
}

func TestUsesInOurVolumes(t *testing.T) {
	t.Parallel()
	const attribute = "spec.volumes[0].csi.volumeAttributes"
	testUses(t, map[string]usesCase{
		"another driver's volume": {in: volumes(csi("csi.example.com", map[string]string{"configMap": "foo"}))},
		"the short form, a ConfigMap": {
			in:   short("configMap", "foo", "items", "[{key: b, path: b}, {key: a, path: c}]", "uid", "101"),
			want: []template.Use{{Object: configMap("foo"), Field: attribute + "[configMap]", Keys: []string{"a", "b"}}},
		},
		"the short form, an optional Secret of the namespace in so many words": {
			in:   short("secret", "tls", "namespace", "default", "items", "[{key: a, path: a}]", "optional", "true"),
			want: []template.Use{{Object: secret("tls"), Field: attribute + "[secret]", Optional: true, ByPod: true}},
		},
		"the short form, another namespace": {in: short("secret", "tls", "namespace", "other")},
		"the long form, by label":           {in: long("[{configMap: {labelSelector: {}}}, {secret: {labelSelector: {}, namespaces: [default]}}]")},
		"the long form without a source":    {in: long("[]")},
		"the long form: entries that name nothing count, other namespaces do not": {
			in: long(`
- configMap: {name: foo, namespace: other}
- {}
- secret: {name: tls, items: [{key: k, path: p}]}
- configMap:
- configMap: {name: foo, namespace: default, optional: true, items: [{key: k, path: q}]}
`),
			want: []template.Use{
				{Object: secret("tls"), Field: attribute + "[sources][2].secret.name", Keys: []string{"k"}, ByPod: true},
				{Object: configMap("foo"), Field: attribute + "[sources][4].configMap.name", Optional: true},
			},
		},
	})
}

// Callers may change the uses that they get.
func TestUsesAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	in := volumes(corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference("foo"), Items: items("a", "b")},
	}, csi(ours.Driver, map[string]string{"configMap": "foo", "items": "[{key: a, path: b}]"}))
	before := in.DeepCopy()
	first, _ := uses(t, in)
	want, _ := uses(t, in)
	for i := range first {
		first[i].Keys[0] = "changed"
	}
	if got, _ := uses(t, in); !cmp.Equal(got, want) || !cmp.Equal(in, before) {
		t.Errorf("after a change of what Uses returned before, Uses = %v, want %v", got, want)
	}
}

// A volume that cannot be read must not hide what the others use, and the message names which volume it is.
func TestUnreadableVolumesHideNothing(t *testing.T) {
	t.Parallel()
	in := volumes(
		csi(ours.Driver, map[string]string{"sources": "[{configMap: {name: foo}]"}),
		csi(ours.Driver, map[string]string{"configMap": "foo"}),
		csi(ours.Driver, nil),
	)
	want := []string{"spec.volumes[0].csi.volumeAttributes: ", "spec.volumes[2].csi.volumeAttributes: "}
	check := func(err error) {
		t.Helper()
		for _, field := range want {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("error %v, want one that names %s", err, field)
			}
		}
	}
	found, err := uses(t, in)
	check(err)
	if diff := cmp.Diff([]template.Use{{Object: configMap("foo"), Field: "spec.volumes[1].csi.volumeAttributes[configMap]"}}, found); diff != "" {
		t.Errorf("Uses (-want +got):\n%s", diff)
	}
	changes, _, err := point(t, in, names{configMap("foo"): "foo-1"})
	check(err)
	wantChanges := []template.Change{{Pointer: "/spec/volumes/1/csi/volumeAttributes/configMap", To: "foo-1"}}
	if diff := cmp.Diff(wantChanges, changes); diff != "" {
		t.Errorf("Point (-want +got):\n%s", diff)
	}
}

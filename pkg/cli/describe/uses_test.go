package describe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

// ours is where the pods of the tests are.
var ours = template.Place{Namespace: "shop", Driver: "csi.example.org"}

// read returns the pod spec that a YAML text is.
func read(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	spec := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestOthers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec string
		want []Use
	}{
		"nothing": {spec: "{}"},
		"a volume of another driver and one without an object": {
			spec: "volumes: [{name: a, csi: {driver: other}}, {name: b, emptyDir: {}}, {name: c, configMap: {}}]",
		},
		"a volume of liveconfig is not listed": {
			spec: "volumes: [{name: a, csi: {driver: csi.example.org, readOnly: true, volumeAttributes: {configMap: a}}}]",
		},
		"volumes of each type, with where they are mounted": {
			spec: `
volumes:
- {name: a, configMap: {name: foo, optional: true}}
- {name: b, secret: {secretName: bar}}
- {name: c, projected: {sources: [{configMap: {name: foo}}, {serviceAccountToken: {path: token}}, {secret: {name: bar, optional: true}}]}}
initContainers: [{name: early, volumeMounts: [{name: b, mountPath: /b}]}]
containers: [{name: web, volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /one, subPath: one}, {name: b, mountPath: /b, subPathExpr: $(X)}]}]`,
			want: []Use{
				{
					Object: "configmap/foo", Optional: true, Way: AsVolume, Volume: "a", Type: "configMap", Field: "spec.volumes[0].configMap.name",
					Mounts: []Mount{{Container: "web", Path: "/a"}, {Container: "web", Path: "/one", SubPath: "one"}},
				},
				{
					Object: "secret/bar", Way: AsVolume, Volume: "b", Type: "secret", Field: "spec.volumes[1].secret.secretName",
					Mounts: []Mount{{Container: "early", Path: "/b"}, {Container: "web", Path: "/b", SubPath: "$(X)"}},
				},
				{Object: "configmap/foo", Way: AsVolume, Volume: "c", Type: "projected", Field: "spec.volumes[2].projected.sources[0].configMap.name"},
				{Object: "secret/bar", Optional: true, Way: AsVolume, Volume: "c", Type: "projected", Field: "spec.volumes[2].projected.sources[2].secret.name"},
			},
		},
		"variables of all sorts of containers": {
			spec: `
initContainers: [{name: early, envFrom: [{prefix: P_, configMapRef: {name: foo, optional: true}}]}]
containers:
- name: web
  env: [{name: PLAIN, value: x}, {name: HOST, valueFrom: {configMapKeyRef: {name: foo, key: host}}}]
  envFrom: [{secretRef: {name: bar}}]
ephemeralContainers: [{name: probe, env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: bar, key: p, optional: true}}}]}]`,
			want: []Use{
				{Object: "configmap/foo", Optional: true, Way: AsVariables, Container: "early", Prefix: "P_", Field: "spec.initContainers[0].envFrom[0].configMapRef.name"},
				{Object: "secret/bar", Way: AsVariables, Container: "web", Field: "spec.containers[0].envFrom[0].secretRef.name"},
				{Object: "configmap/foo", Way: AsVariable, Container: "web", Variable: "HOST", Field: "spec.containers[0].env[1].valueFrom.configMapKeyRef.name"},
				{Object: "secret/bar", Optional: true, Way: AsVariable, Container: "probe", Variable: "PASSWORD", Field: "spec.ephemeralContainers[0].env[0].valueFrom.secretKeyRef.name"},
			},
		},
		"what logs in": {
			spec: `
imagePullSecrets: [{name: registry}, {}]
volumes: [{name: a, csi: {driver: other, nodePublishSecretRef: {name: login}}}, {name: b, azureFile: {secretName: login, shareName: x}}]
containers: [{name: web, volumeMounts: [{name: b, mountPath: /b}]}]`,
			want: []Use{
				{Object: "secret/registry", Optional: true, Way: ToPull, Field: "spec.imagePullSecrets[0].name"},
				{Object: "secret/login", Way: ToMount, Volume: "a", Type: "csi", Field: "spec.volumes[0].csi.nodePublishSecretRef.name"},
				{
					Object: "secret/login", Way: ToMount, Volume: "b", Type: "azureFile", Field: "spec.volumes[1].azureFile.secretName",
					Mounts: []Mount{{Container: "web", Path: "/b"}},
				},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := othersOf(read(t, test.spec), ours.Namespace)
			wantSame(t, "othersOf", test.want, got)
		})
	}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	const at = "spec.volumes[0].csi."
	tests := map[string]struct {
		spec     string
		mistakes []string
		sources  int
		mounts   []Mount
	}{
		"one with its mounts": {
			spec: `
volumes: [{name: a, csi: {driver: csi.example.org, readOnly: true, volumeAttributes: {secret: a}}}]
containers: [{name: web, volumeMounts: [{name: a, mountPath: /a}, {name: other, mountPath: /b}]}]`,
			sources: 1, mounts: []Mount{{Container: "web", Path: "/a"}},
		},
		"mistakes with their fields": {
			spec: `volumes: [{name: a, csi: {driver: csi.example.org, volumeAttributes: {configmap: a, sources: "[{secret: {name: A}}]"}}}]`,
			mistakes: []string{
				at + "readOnly: the volume must be read-only: write readOnly: true",
				at + `volumeAttributes.configmap: Forbidden: unknown attribute, did you mean "configMap"?`,
				at + `volumeAttributes.sources[0].secret.name: Invalid value: "A": must be an object name: up to 253 of a-z, 0-9, "-" and ".", first and last a letter or digit`,
			},
		},
		"what only warrants a mention by number": {
			spec: `volumes: [{name: a, csi: {driver: csi.example.org, readOnly: true, volumeAttributes: {sources: "[` +
				strings.Repeat("{nothing: 1}, ", 22) + `]"}}}]`,
			mistakes: nil, // Compared by number below.
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := volumesOf(read(t, test.spec), ours, nil)
			if len(got) != 1 || got[0].Name != "a" {
				t.Fatalf("volumesOf = %+v, want a alone", got)
			}
			if strings.Contains(test.spec, "nothing") {
				if n, last := len(got[0].Mistakes), got[0].Mistakes[len(got[0].Mistakes)-1]; n != 21 || last != at+"volumeAttributes: and 2 more" {
					t.Errorf("there are %d mistakes, the last is %q, want 21 and that there are 2 more", n, last)
				}
				return
			}
			wantSame(t, "Mistakes", test.mistakes, got[0].Mistakes)
			if len(got[0].Sources) != test.sources {
				t.Errorf("Sources = %v, want %d", got[0].Sources, test.sources)
			}
			wantSame(t, "Mounts", test.mounts, got[0].Mounts)
		})
	}
}

func wantSame[T any](t *testing.T, what string, want, got T, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

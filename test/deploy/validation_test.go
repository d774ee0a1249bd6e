package deploy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// attributeRows are attributes that the policy refuses. The driver refuses them in the same words.
func attributeRows() map[string]map[string]string {
	return map[string]map[string]string{
		"nothing":                   {},
		"nothing but a policy":      {"updatePolicy": "Replace"},
		"an unknown attribute":      {"configMap": "web", "volume": "a"},
		"as in the short form":      {"configMap": "web", "as": "{path: a.env, format: dotenv}"},
		"an odd attribute":          {"configMap": "web", "a: b\n": "a"},
		"both kinds":                {"configMap": "web", "secret": "tls"},
		"both forms":                {"configMap": "web", "items": "[]", "optional": "true", "namespace": "a", "sources": "[]"},
		"an empty name":             {"secret": ""},
		"an impossible name":        {"configMap": "Web_1"},
		"an impossible namespace":   {"configMap": "web", "namespace": "a.b"},
		"no truth":                  {"configMap": "web", "optional": "1"},
		"a mode with a nine":        {"configMap": "web", "defaultMode": "0649"},
		"a mode with a special bit": {"configMap": "web", "defaultMode": "4755"},
		"an empty mode":             {"configMap": "web", "defaultMode": ""},
		"IDs":                       {"configMap": "web", "uid": "2147483648", "gid": "-1", "defaultUser": "007"},
		"two users":                 {"configMap": "web", "uid": "1", "defaultUser": "2"},
		"policies":                  {"configMap": "web", "updatePolicy": "Always", "onDelete": "Ignore"},
		"many":                      {"sources": "[]", "namespace": "X", "gid": "x", "defaultMode": "x", "y": "z"},
	}
}

func (p *policies) ours(attributes map[string]string) corev1.VolumeSource {
	return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: p.driver, ReadOnly: new(true), VolumeAttributes: attributes}}
}

// TestPodsThatTheDriverWouldRefuse are refused when they are created, in the driver's words.
func TestPodsThatTheDriverWouldRefuse(t *testing.T) {
	t.Parallel()
	p := installPolicies(t, "validation")
	namespace := cluster.NewNamespace(t, p.cluster)
	awaitPolicy(t, func() error {
		_, err := p.creates(t.Context(), namespace, podOf(p.ours(nil)))
		return err
	})
	for name, attributes := range attributeRows() {
		_, err := p.creates(t.Context(), namespace, podOf(p.ours(map[string]string{"configMap": "web"}), p.ours(attributes)))
		if err == nil {
			t.Errorf("%s: the pod was created", name)
			continue
		}
		_, said, _ := strings.Cut(err.Error(), "volume volume-1: ")
		_, want := api.Parse(attributes, namespace)
		if want == nil {
			t.Errorf("%s: the driver takes what the policy refuses: %s", name, said)
			continue
		}
		heading, mistakes, _ := strings.Cut(said, ": ")
		if !strings.HasPrefix(want.Error(), heading+": ") {
			t.Errorf("%s: the policy says %q, the driver %q", name, said, want)
		}
		for mistake := range strings.SplitSeq(mistakes, "; ") {
			if !strings.Contains(want.Error(), mistake) {
				t.Errorf("%s: the policy says %q, the driver %q", name, mistake, want)
			}
		}
	}
	p.wantTaken(t, namespace)
	p.wantReadOnly(t, namespace)
	p.wantWarning(t, namespace)
}

// wantTaken checks that nothing is refused that the driver takes, or that is not the driver's.
func (p *policies) wantTaken(t *testing.T, namespace string) {
	t.Helper()
	other := p.ours(map[string]string{"volume": "a"})
	other.CSI.Driver, other.CSI.ReadOnly = "csi.example.org", nil
	for name, v := range map[string]corev1.VolumeSource{
		"another driver": other,
		"a ConfigMap":    aConfigMap,
		"the short form": p.ours(map[string]string{
			"secret": "tls", "namespace": "certs", "items": "[{key: a, path: b}]", "optional": "false", "defaultMode": "0o440",
			"uid": "0", "gid": "2147483647", "defaultUser": "0", "updatePolicy": "InPlace", "onDelete": "Remove",
			"mountPoints": "[custom]",
		}),
		"the long form":     p.ours(map[string]string{"sources": "[{configMap: {name: web}}]", "defaultMode": "7"}),
		"mistakes in items": p.ours(map[string]string{"configMap": "web", "items": "{"}),
	} {
		if _, err := p.creates(t.Context(), namespace, podOf(v)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func (p *policies) wantReadOnly(t *testing.T, namespace string) {
	t.Helper()
	writable := p.ours(map[string]string{"configMap": "web"})
	writable.CSI.ReadOnly = nil
	_, err := p.creates(t.Context(), namespace, podOf(p.ours(map[string]string{"configMap": "web"}), writable))
	const want = `volume volume-1: the volume must be read-only: add "readOnly: true" to its csi section`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a volume without readOnly = %v, want %q", err, want)
	}
}

// wantWarning checks that workloads are taken with a warning.
func (p *policies) wantWarning(t *testing.T, namespace string) {
	t.Helper()
	b := newBench(t, p.cluster)
	const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web}]
      volumes: [{name: config, csi: {driver: DRIVER, readOnly: true, volumeAttributes: {configmap: web}}}]
`
	const cronJob = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: web}
spec:
  schedule: "@daily"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: web, image: web}]
          volumes: [{name: config, csi: {driver: DRIVER, readOnly: true, volumeAttributes: {configmap: web}}}]
`
	for _, text := range []string{workload, cronJob} {
		out := b.run("kubectl -n " + namespace + " create --dry-run=server -f - <<'EOF'\n" + strings.ReplaceAll(text, "DRIVER", p.driver) + "EOF")
		if !strings.Contains(out, "Warning") || !strings.Contains(out, "configmap: Forbidden: unknown attribute") {
			t.Errorf("a workload with a mistake = %q, want a warning", out)
		}
	}
}

package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// manifest is a workload as it is in somebody's repository, with every way to use a ConfigMap.
const manifest = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: web
          env: [{name: LEVEL, valueFrom: {configMapKeyRef: {name: settings, key: level}}}]
          envFrom: [{configMapRef: {name: settings}}]
      volumes:
        - {name: settings, configMap: {name: settings}}
        - {name: several, projected: {sources: [{configMap: {name: settings}}]}}
        - {name: live, csi: {driver: csi.liveconfig.internal, volumeAttributes: {configMap: settings}}}
`

// pointed is what the controller writes on it, as one patch.
const pointed = `[
	{"op": "replace", "path": "/spec/template/spec/volumes/0/configMap/name", "value": "settings-0123456789"},
	{"op": "replace", "path": "/spec/template/spec/containers/0/envFrom/0/configMapRef/name", "value": "settings-0123456789"},
	{"op": "replace", "path": "/spec/template/spec/containers/0/env/0/valueFrom/configMapKeyRef/name", "value": "settings-0123456789"},
	{"op": "replace", "path": "/spec/template/spec/volumes/1/projected/sources/0/configMap/name", "value": "settings-0123456789"},
	{"op": "replace", "path": "/spec/template/spec/volumes/2/csi/volumeAttributes/configMap", "value": "settings-0123456789"},
	{"op": "add", "path": "/spec/template/metadata/annotations", "value": {"liveconfig.internal/config": "{}"}},
	{"op": "add", "path": "/metadata/labels", "value": {"liveconfig.internal/rollout": "0123"}}
]`

// withoutNames is the manifest without what is left out by deploy/GITOPS.md.
func withoutNames() string {
	return strings.NewReplacer(
		"          envFrom: [{configMapRef: {name: settings}}]\n", "",
		"configMapKeyRef: {name: settings, key: level}", "",
		"projected: {sources: [{configMap: {name: settings}}]}", "projected: {}",
		"configMap: {name: settings}", "configMap: {}",
		"volumeAttributes: {configMap: settings}", "volumeAttributes: {}",
	).Replace(manifest)
}

// copied and putBack report which object all uses name.
const (
	copied  = "settings-0123456789"
	putBack = "settings"
)

// site is a namespace that somebody's tool writes to.
type site struct {
	*bench
	namespace, manifest string
}

func newSite(t *testing.T) *site {
	t.Helper()
	c := cluster.ForTest(t)
	s := &site{bench: newBench(t, c), namespace: cluster.NewNamespace(t, c)}
	s.manifest = s.writes("web.yaml", manifest)
	return s
}

func (s *site) writes(name, text string) string {
	s.Helper()
	path := filepath.Join(s.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

func (s *site) points() {
	s.Helper()
	_, err := s.cluster.Client().AppsV1().Deployments(s.namespace).Patch(s.Context(), "web", types.JSONPatchType, []byte(pointed),
		metav1.PatchOptions{FieldManager: "liveconfig-controller"})
	if err != nil {
		s.Fatal(err)
	}
}

// want wants that all uses name an object, and that the controller's own marks are there.
func (s *site) want(name string) {
	s.Helper()
	web, err := s.cluster.Client().AppsV1().Deployments(s.namespace).Get(s.Context(), "web", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	spec := web.Spec.Template.Spec
	got := []string{
		spec.Containers[0].EnvFrom[0].ConfigMapRef.Name, spec.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef.Name,
		spec.Volumes[0].ConfigMap.Name, spec.Volumes[1].Projected.Sources[0].ConfigMap.Name, spec.Volumes[2].CSI.VolumeAttributes["configMap"],
		web.Labels["liveconfig.internal/rollout"], web.Spec.Template.Annotations["liveconfig.internal/config"],
	}
	if diff := cmp.Diff([]string{name, name, name, name, name, "0123", "{}"}, got); diff != "" {
		s.Errorf("the workload (-want +got):\n%s", diff)
	}
}

// wantConflict wants that a line ends with an error that names the controller and a field of it.
func (s *site) wantConflict(line string) {
	s.Helper()
	out, err := s.types(line)
	if err == nil || !strings.Contains(out, `conflict`) || !strings.Contains(out, `"liveconfig-controller"`) || !strings.Contains(out, ".configMap.name") {
		s.Errorf("%s: %v, want a conflict with the controller\n%s", line, err, out)
	}
}

// TestAppliedAgain is what deploy/GITOPS.md describes for kubectl, and of tools that do as it does.
func TestAppliedAgain(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"by the client":            "kubectl apply",
		"by the server with force": "kubectl apply --server-side --force-conflicts --field-manager=argocd-controller",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			line := line + " -n " + s.namespace + " -f " + s.manifest
			s.run(line)
			s.points()
			s.run(line)
			s.want(putBack)
		})
	}
}

// TestConflictNamesTheController: a user who applies by the server and without force gets an error.
func TestConflictNamesTheController(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	line := "kubectl apply --server-side -n " + s.namespace + " -f " + s.manifest
	s.run(line)
	s.points()
	s.wantConflict(line)
	s.want(copied)
}

// TestNamesThatAreLeftOut is what Flux's ignore rules come to: it applies without those fields, and the controller's stay.
func TestNamesThatAreLeftOut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	line := "kubectl apply --server-side --force-conflicts --field-manager=kustomize-controller -n " + s.namespace + " -f "
	s.run(line + s.manifest)
	s.points()
	s.run(line + s.writes("without.yaml", withoutNames()))
	s.want(copied)
}

// TestHelmUpgrade: with what Helm puts the names back, and with what it does not.
func TestHelmUpgrade(t *testing.T) {
	t.Parallel()
	for serverSide, upgrade := range map[string]string{"true": " --force-conflicts", "false": ""} {
		t.Run(serverSide, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			chart := filepath.Dir(filepath.Dir(s.writes("chart/templates/web.yaml", manifest+"  replicas: {{ .Values.replicas }}\n")))
			if err := os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte("{apiVersion: v2, name: web, version: 0.1.0}"), 0o600); err != nil {
				t.Fatal(err)
			}
			line := "web " + chart + " -n " + s.namespace + " --set replicas="
			s.run("helm install --server-side=" + serverSide + " " + line + "1")
			s.points()
			if serverSide == "true" {
				s.wantConflict("helm upgrade " + line + "2")
				s.want(copied)
			}
			s.run("helm upgrade " + line + "2" + upgrade)
			s.want(putBack)
		})
	}
}

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// repo is the checkout as this package's tests see it.
	repo = "../.."
	// namespace and release are what the kustomizations are written for.
	namespace = "liveconfig-system"
	release   = "liveconfig"
)

// inRepo returns the absolute path of something in the checkout.
func inRepo(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{repo}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// run runs a program in the checkout's root and returns all that it prints. Helm and kubectl are those that make builds, and
// know nothing of this user.
func run(t *testing.T, env []string, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = inRepo(t)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=",
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home,
		"PATH="+strings.Join([]string{inRepo(t, "bin", "tools"), inRepo(t, "bin", "k8s"), os.Getenv("PATH")}, ":"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := inRepo(t, "bin", "tools", "helm")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v; run `make bin/helm` to build it", err)
	}
	return run(t, nil, program, args...)
}

// wantDone returns what a program printed, and ends the test if the program failed.
func wantDone(t *testing.T, out string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// template renders the chart as it is for the kustomizations, with further flags of helm.
func template(t *testing.T, args ...string) string {
	t.Helper()
	command := []string{"template", release, "deploy/chart", "--namespace", namespace, "--kube-version", "1.35.0"}
	out, err := helm(t, slices.Concat(command, image(), args)...)
	return wantDone(t, out, err)
}

// image is the one that the kustomizations name.
func image() []string { return []string{"--set", "image.repository=liveconfig,image.tag=dev"} }

func kustomize(t *testing.T, folder string) string {
	t.Helper()
	out, err := run(t, nil, inRepo(t, "bin", "k8s", "kubectl"), "kustomize", "deploy/"+folder)
	return wantDone(t, out, err)
}

// objects returns the objects of a text by kind and name. Two of one name are a mistake.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var o unstructured.Unstructured
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if o.Object == nil {
			continue
		}
		key := strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
		if found[key] != nil {
			t.Fatalf("two objects are %s", key)
		}
		found[key] = o.Object
	}
	if len(found) == 0 {
		t.Fatalf("no objects in:\n%s", text)
	}
	return found
}

// TestKustomizationsAreTheChart: each with the same values.
func TestKustomizationsAreTheChart(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"base":                     nil,
		"overlays/before-1.35":     {"--kube-version", "1.34.9"},
		"overlays/driver-identity": {"--set", "identity.secrets=driver"},
	}
	for folder, args := range tests {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			got := objects(t, template(t, append(args, "--set", "namespace.create=true")...))
			if diff := cmp.Diff(objects(t, kustomize(t, folder)), got); diff != "" {
				t.Errorf("objects of the chart (-deploy/%s +chart):\n%s", folder, diff)
			}
		})
	}
}

// TestControllerIsTheCharts: deploy/controller has what the chart makes more with a controller.
func TestControllerIsTheCharts(t *testing.T) {
	t.Parallel()
	got := objects(t, template(t, "--set", "controller.enabled=true"))
	for key := range objects(t, template(t)) {
		delete(got, key)
	}
	if diff := cmp.Diff(objects(t, kustomize(t, "controller")), got); diff != "" {
		t.Errorf("objects of the chart (-deploy/controller +chart):\n%s", diff)
	}
}

// TestAdmissionIsTheCharts: deploy/admission has what the chart makes more with both policies.
func TestAdmissionIsTheCharts(t *testing.T) {
	t.Parallel()
	got := objects(t, template(t, "--kube-version", "1.36.0", "--set", "admission.volumes=true,admission.validation=true"))
	for key := range objects(t, template(t)) {
		delete(got, key)
	}
	if diff := cmp.Diff(objects(t, kustomize(t, "admission")), got); diff != "" {
		t.Errorf("objects of the chart (-deploy/admission +chart):\n%s", diff)
	}
}

// TestPodMonitorsAreTheSame: that of the chart is the one for kustomize, which finds the pods of every release.
func TestPodMonitorsAreTheSame(t *testing.T) {
	t.Parallel()
	got := template(t, "--set", "podMonitor.enabled=true", "--show-only", "templates/podmonitor.yaml")
	got = strings.ReplaceAll(got, `app.kubernetes.io/instance: "`+release+"\"\n", "\n")
	want := read(t, inRepo(t, "deploy", "monitoring", "podmonitor.yaml"))
	if diff := cmp.Diff(objects(t, want), objects(t, got)); diff != "" {
		t.Errorf("the PodMonitor of the chart (-deploy/monitoring +chart):\n%s", diff)
	}
}

// TestEveryOverlayIsCompared: a new one must be.
func TestEveryOverlayIsCompared(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir(inRepo(t, "deploy", "overlays"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range folders {
		got = append(got, f.Name())
	}
	if diff := cmp.Diff([]string{"before-1.35", "driver-identity"}, got); diff != "" {
		t.Errorf("overlays, beside those of TestKustomizationsAreTheChart (-want +got):\n%s", diff)
	}
}

// TestManifestsAreUpToDate: `make manifests` would change nothing, and nothing else is in the folders that it writes.
func TestManifestsAreUpToDate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := run(t, nil, "test/deploy/manifests.sh", dir)
	wantDone(t, out, err)
	for _, folder := range []string{"base", "controller", "admission"} {
		want := files(t, filepath.Join(dir, folder))
		got := files(t, inRepo(t, "deploy", folder))
		delete(got, "kustomization.yaml")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("deploy/%s is not what `make manifests` writes (-written +deploy/%[1]s):\n%s", folder, diff)
		}
	}
}

// files returns the content of each file of a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		found[e.Name()] = read(t, filepath.Join(dir, e.Name()))
	}
	return found
}

// TestLint has Helm look at the chart, as it is and as it is installed.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"1.26.0"}, append([]string{"1.35.0"}, image()...)} {
		out, err := helm(t, append([]string{"lint", "--strict", "deploy/chart", "--kube-version"}, args...)...)
		wantDone(t, out, err)
	}
}

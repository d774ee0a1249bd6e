package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestComponentFitsTheInstallation: it adds its objects to deploy/base and deploy/controller, and changes none.
func TestComponentFitsTheInstallation(t *testing.T) {
	t.Parallel()
	without, with := installation(t), installation(t, "monitoring")
	for _, object := range without {
		if !slices.Contains(with, object) {
			t.Errorf("with the component this is gone:\n%s", object)
		}
	}
	if len(with) != len(without)+4 {
		t.Errorf("%d objects are more than without, want 4", len(with)-len(without))
	}
}

// manifest is an object, as far as this package reads it.
type manifest struct {
	Kind     string   `json:"kind"`
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		PodMetricsEndpoints []port `json:"podMetricsEndpoints"`
		Template            struct {
			Metadata metadata `json:"metadata"`
			Spec     struct {
				Containers []struct {
					Ports []port `json:"ports"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
}

// port is one of a container, or of a PodMonitor that means it.
type port struct {
	Name string `json:"name"`
	Port string `json:"port"`
}

// TestPodMonitorsFindTheirPods: each those of one workload, at a port that they have. The tests of the rules know their job.
func TestPodMonitorsFindTheirPods(t *testing.T) {
	t.Parallel()
	var monitors, workloads []manifest
	for _, text := range installation(t, "monitoring") {
		var m manifest
		if err := yaml.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch m.Kind {
		case "PodMonitor":
			monitors = append(monitors, m)
		case "Deployment", "DaemonSet":
			workloads = append(workloads, m)
		}
	}
	tests := string(read(t, "testdata/rules_test.yaml"))
	var found []string
	for _, monitor := range monitors {
		for _, w := range workloads {
			if finds(monitor, w) {
				found = append(found, monitor.Metadata.Name+" finds "+w.Metadata.Name)
			}
		}
		job := fmt.Sprintf(`up{job="%s/%s"`, monitor.Metadata.Namespace, monitor.Metadata.Name)
		if !strings.Contains(tests, job) {
			t.Errorf("the rules are not tested with %s", job)
		}
	}
	want := []string{"liveconfig-controller finds liveconfig-controller", "liveconfig-driver finds liveconfig-driver"}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(found))); diff != "" {
		t.Errorf("PodMonitors and workloads (-want +got):\n%s", diff)
	}
}

// finds reports whether a PodMonitor selects a workload's pods, and one of their ports.
func finds(monitor, w manifest) bool {
	pod := w.Spec.Template
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if pod.Metadata.Labels[key] != value {
			return false
		}
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == monitor.Spec.PodMetricsEndpoints[0].Port {
				return monitor.Metadata.Namespace == w.Metadata.Namespace
			}
		}
	}
	return false
}

// installation returns the objects of deploy/base and deploy/controller with components of deploy.
func installation(t *testing.T, components ...string) []string {
	t.Helper()
	dir := t.TempDir()
	paths := func(names ...string) string {
		var all []string
		for _, name := range names {
			all = append(all, relative(t, dir, filepath.Join(repo, "deploy", name)))
		}
		return "[" + strings.Join(all, ", ") + "]\n"
	}
	return kustomize(t, dir, "resources: "+paths("base", "controller")+"components: "+paths(components...))
}

// relative returns the way from one folder to another, as kustomize wants it.
func relative(t *testing.T, from, to string) string {
	t.Helper()
	to, err := filepath.Abs(to)
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// kustomize returns the objects that a kustomization makes.
func kustomize(t *testing.T, dir, text string) []string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(repo, "bin", "k8s", "kubectl"), "kustomize", dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v\n%s", err, text)
	}
	var objects []string
	for object := range strings.SplitSeq(string(out), "\n---\n") {
		objects = append(objects, strings.TrimSpace(object))
	}
	return objects
}

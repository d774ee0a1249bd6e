package driver

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

func TestMetricsAndHealth(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pod := b.Pod("web", map[string]string{"configMap": "web"})
	b.Publish(pod)
	b.UpdateConfigMap("web", map[string]string{"color": "green"})
	b.WantFile(pod, "color", "green")
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := b.Get(path); got != "ok\n" {
			t.Errorf("%s says %q, want ok", path, got)
		}
	}
	metrics := b.Get("/metrics")
	for _, want := range []string{
		`csi_plugin_operations_seconds_count{driver_name="csi.liveconfig.internal",grpc_status_code="OK",method_name="/csi.v1.Node/NodePublishVolume"} 1`,
		"liveconfig_volumes 1", "liveconfig_watches 1", `liveconfig_syncs_total{result="written"}`, "liveconfig_update_duration_seconds_count",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestLogsAsJSON(t *testing.T) {
	t.Parallel()
	b := newRig(t, "--log-format=json")
	b.WantRefusal(b.Pod("web", map[string]string{"bogus": "1"}), 3, "bogus")
	data, err := os.ReadFile(b.Node.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	failed := false
	for line := range bytes.Lines(data) {
		var entry struct {
			Msg, Method, VolumeID string
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatalf("log line %q is not JSON: %v", line, err)
		}
		failed = failed || entry.Msg == "Call failed" && entry.Method == "NodePublishVolume" && entry.VolumeID != ""
	}
	if !failed {
		t.Errorf("no line reports the failed call:\n%s", data)
	}
}

// TestManifestsAreWhatTheAPIServerTakes applies what we ship, as a dry run on the server.
func TestManifestsAreWhatTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	c := environment.Cluster(t)
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	args := [][]string{
		{"-k", filepath.Join(repo, "deploy", "base")},
		{"-k", filepath.Join(repo, "deploy", "overlays", "before-1.35")},
		{"-k", filepath.Join(repo, "deploy", "overlays", "driver-identity")},
	}
	examples, err := filepath.Glob(filepath.Join(repo, "examples", "*", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("examples: %v %v", examples, err)
	}
	for _, file := range examples {
		args = append(args, []string{"-f", file})
		if filepath.Base(file) != "rbac.yaml" {
			continue
		}
		if _, err := c.Apply(t.Context(), file); err != nil { // A pod is refused whose service account does not exist.
			t.Error(err)
		}
	}
	for _, a := range args {
		out, err := c.Kubectl(t.Context(), append([]string{"apply", "--dry-run=server", "--validate=strict"}, a...)...)
		if err != nil {
			t.Errorf("kubectl apply %s: %v", a[1], err)
		}
		if !strings.Contains(out, "server dry run") {
			t.Errorf("kubectl apply %s said %q, want a server dry run", a[1], out)
		}
	}
}

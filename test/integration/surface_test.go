package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
)

// metric returns the value of a series of the driver's metrics; nothing if there is none.
func (b *bench) metric(series string) string {
	b.t.Helper()
	return seriesOf(b.get("/metrics"), series)
}

func seriesOf(metrics, series string) string {
	for line := range strings.Lines(metrics) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == series {
			return value
		}
	}
	return ""
}

// get returns the body that the driver's HTTP endpoint serves at a path.
func (b *bench) get(path string) string {
	b.t.Helper()
	body, err := b.fetch(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}

// fetch is get for a driver that may be dead.
func (b *bench) fetch(path string) (string, error) {
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+b.http+path, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s\n%s", path, resp.Status, body)
	}
	return string(body), err
}

// freeAddress returns a loopback address that nobody listens on right now.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestMetricsAndHealth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"color": "red"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	b.publish(pod)
	b.updateConfigMap("web", map[string]string{"color": "green"})
	b.wantFile(pod, "color", "green")
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := b.get(path); got != "ok\n" {
			t.Errorf("%s says %q, want ok", path, got)
		}
	}
	metrics := b.get("/metrics")
	for _, want := range []string{
		`csi_plugin_operations_seconds_count{driver_name="csi.liveconfig.internal",grpc_status_code="OK",method_name="/csi.v1.Node/NodePublishVolume"} 1`,
		"liveconfig_volumes 1", "liveconfig_watches 1", `liveconfig_syncs_total{result="written"}`, "liveconfig_update_duration_seconds_count",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(metrics, "green") {
		t.Error("/metrics shows content")
	}
}

func TestLogsAsJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t, "--log-format=json")
	b.wantRefusal(b.pod("web", map[string]string{"bogus": "1"}), 3, "bogus")
	data, err := os.ReadFile(b.node.LogFile())
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
		t.Errorf("no line tells of the failed call:\n%s", data)
	}
}

// TestManifestsAreWhatTheAPIServerTakes applies what we ship, as a dry run on the server.
func TestManifestsAreWhatTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	c := lab.Cluster(t)
	repo, err := lab.Repo()
	if err != nil {
		t.Fatal(err)
	}
	args := [][]string{
		{"-k", filepath.Join(repo, "deploy", "base")}, {"-k", filepath.Join(repo, "deploy", "overlays", "pod-identity")},
	}
	examples, err := filepath.Glob(filepath.Join(repo, "examples", "*", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("examples: %v %v", examples, err)
	}
	for _, file := range examples {
		args = append(args, []string{"-f", file})
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

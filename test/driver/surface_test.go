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

func TestLogsAsJSON(t *testing.T) {
	t.Parallel()
	b := newRig(t, "--log-format=json")
	b.WantRefusal(b.Pod("web", map[string]string{"bogus": "1"}), 3, "bogus")
	data, err := os.ReadFile(b.Node.LogFile())
	must(t, err)
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
	must(t, err)
	for _, folder := range []string{"base", "overlays/before-1.35", "overlays/driver-identity"} {
		out, err := c.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-k", filepath.Join(repo, "deploy", folder))
		if err != nil || !strings.Contains(out, "server dry run") {
			t.Errorf("kubectl apply of %s said %q, %v, want a server dry run", folder, out, err)
		}
	}
}

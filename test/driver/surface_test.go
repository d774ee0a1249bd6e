package driver

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

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

package cluster_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

func TestStartNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := cluster.Start(t.Context(), cluster.Config{BinDir: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "make bin/k8s") {
		t.Errorf("error without programs = %v, want what to run", err)
	}
}

func TestAFailedStartHasAReasonAndLeavesNothing(t *testing.T) {
	temp, err := os.MkdirTemp("", "lc") //nolint:usetesting // t.TempDir is too long for a socket's path.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	t.Setenv("TMPDIR", temp)
	_, err = cluster.Start(t.Context(), cluster.Config{APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("error = %v, want the API server's own words", err)
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("left in the temporary directory: %v, %v", entries, err)
	}
}

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/page"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// TestTour runs the script of a new user's first day, which itself checks the effect of each command, and compares what the
// script prints with what TOUR.md shows.
func TestTour(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.importExampleImages(t)
	s.withController(t)
	printed, err := s.Shell(t.Context(), fmt.Sprintf("export PATH=%q:$PATH\ntest/e2e/tour.sh", filepath.Dir(environment.Plugin(t))))
	expect.NoError(t, err)
	if testing.Verbose() {
		t.Log(printed)
	}
	text, err := os.ReadFile(filepath.Join(s.Repo(), "test", "e2e", "TOUR.md"))
	expect.NoError(t, err)
	wantInOrder(t, printed, page.Shown(string(text)))
	for _, namespace := range []string{"liveconfig-tour", "shop", "certs"} {
		s.wantNoNamespace(t, namespace)
	}
}

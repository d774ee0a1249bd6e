package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// TestStorageSuite runs Kubernetes' own tests of inline CSI volumes. Which do not apply, and why, stands in tests.yaml beside
// the program.
func TestStorageSuite(t *testing.T) {
	s := on(t, realnode.Containerd2())
	images, err := s.Shell(t.Context(), "storage-e2e --images")
	must(t, err)
	for ref := range strings.FieldsSeq(images) {
		image := realnode.FakeImage{Ref: ref, Cmd: []string{"/bin/sh"}}
		must(t, s.ImportStandIns(t.Context(), image))
	}
	report := filepath.Join(s.LogDir(), "storage-e2e.xml")
	summary, err := s.Shell(t.Context(), fmt.Sprintf(`storage-e2e --kubeconfig="$KUBECONFIG" --junit=%q`, report))
	must(t, err)
	t.Log(summary)
}

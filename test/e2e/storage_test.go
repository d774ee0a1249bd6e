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
	if err != nil {
		t.Fatal(err)
	}
	for ref := range strings.FieldsSeq(images) {
		image := realnode.FakeImage{Ref: ref, Cmd: []string{"/bin/sh"}}
		if err := s.ImportStandIns(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	report := filepath.Join(s.LogDir(), "storage-e2e.xml")
	summary, err := s.Shell(t.Context(), fmt.Sprintf(`storage-e2e --kubeconfig="$KUBECONFIG" --junit=%q`, report))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(summary)
}

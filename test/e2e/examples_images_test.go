package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakeimages"
)

// importExampleImages gives the node an image for each that a manifest of the examples names. The
// kubelet, the runtime, the driver and the files are real, and so are the users that the containers
// run as.
func (s *site) importExampleImages(t *testing.T) {
	t.Helper()
	images, err := fakeimages.For(filepath.Join(s.Repo(), "examples"))
	expect.NoError(t, err)
	expect.NoError(t, s.ImportStandIns(t.Context(), images...))
}

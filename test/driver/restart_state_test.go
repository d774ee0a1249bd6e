package driver

import (
	"path/filepath"

	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

func tokensHeld(b *fixture.Fixture) int {
	b.T.Helper()
	files, err := filepath.Glob(filepath.Join(b.Node.StateDir(), "tokens", "*.json"))
	must(b.T, err)
	return len(files)
}

package volume_test

import (
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
)

// TestMain gives the tests a mount namespace of their own, for those with real mounts.
func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

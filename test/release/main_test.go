// Package release tests releases of live config from outside: the real processes of the controller and of a
// driver, a real API server, real mounts. Pods are objects whose status the tests write, as a kubelet would.
package release

import (
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

func TestMain(m *testing.M) { os.Exit(environment.Main(m)) }

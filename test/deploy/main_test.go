// Package deploy tests what deploy offers to users who install the driver: the chart and the kustomizations make the same
// objects, an API server takes them, the driver takes its flags, and a mistake in a value is reported.
//
// It does not know what a kubelet makes of the objects.
package deploy

import (
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }

// Package dryrun publishes a version of the project as the release workflow does: it runs the workflow's own commands in a
// copy of the checkout, with a registry on loopback. Then it looks at everything that came of it.
//
// It does not know signatures and attestations, which need GitHub.
package dryrun

import (
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }

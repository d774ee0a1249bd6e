// Command liveconfig-controller is the rollout controller: it makes a change of a ConfigMap or a Secret a revision of the
// workloads that are triggered by it.
package main

import (
	"context"
	"os"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon"
)

func main() { os.Exit(daemon.Main(context.Background(), "liveconfig-controller", run)) }

// Command liveconfig-driver is the CSI node driver: one runs on every node, beside the kubelet.
package main

import (
	"context"
	"os"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon"
)

func main() { os.Exit(daemon.Main(context.Background(), "liveconfig-driver", run)) }

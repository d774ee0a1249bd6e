// Command liveconfig-controller is what runs once per cluster. It makes a change of a ConfigMap or
// Secret a revision of the workloads that the object triggers, and releases edits of objects step
// by step.
package main

import (
	"context"
	"os"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == isolated.Argument {
		os.Exit(check())
	}
	os.Exit(daemon.Main(context.Background(), api.ControllerName, run))
}

// check checks an edit, as a process that the controller has started.
func check() (code int) {
	if err := isolated.Main(os.Stdin, os.Stdout); err != nil {
		return 1
	}
	return 0
}

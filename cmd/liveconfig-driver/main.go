// Command liveconfig-driver is the CSI node driver: one runs on every node, beside the kubelet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal kills.
	err := run(ctx, os.Args[1:], os.Getenv, os.Stderr)
	klog.Flush()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "liveconfig-driver:", err)
		os.Exit(1)
	}
}

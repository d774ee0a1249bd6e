// Command nodes simulates nodes of a cluster for the benchmark. It ends with its input, so with its parent, and at the
// latest when its time is up.
//
// A line of JSON on its input is an order, and one on its output the answer: see [fleet.Order] and [fleet.Answer].
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var cfg fleet.Config
	fs := flag.NewFlagSet("nodes", flag.ContinueOnError)
	limit := fs.Duration("for", time.Minute, "how long it may run")
	way := fs.String("way", string(fleet.Driver), "how objects are kept current")
	fs.StringVar(&cfg.Kubeconfigs, "kubeconfigs", "", "the folder with a kubeconfig for each node")
	fs.StringVar(&cfg.Namespace, "namespace", "", "where the objects are")
	fs.IntVar(&cfg.Own, "own", 0, "how many objects each node has for itself")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cfg.Way = fleet.Way(*way)
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, errors.New("the time is up"))
	defer cancel()
	c, err := fleet.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	served := make(chan error, 1)
	go func() { served <- fleet.Serve(ctx, c, in, out) }()
	select {
	case err := <-served:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

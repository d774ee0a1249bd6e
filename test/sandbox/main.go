// Command sandbox starts a Kubernetes cluster of one real node on this machine and runs a shell in
// it. The driver and the rollout controller are installed from the chart, and the node has the
// images of the examples. When the shell ends, everything ends with it and is removed.
//
//	sandbox [FLAGS] [COMMAND-LINE]
//
// A command line runs in place of the shell. The program ends with its exit status, or with that of
// a shell that reads commands from a pipe. After a shell at a terminal it ends with status 0.
// Progress goes to stderr.
//
// The program needs root. test/sandbox.sh builds everything and starts the program. It does not
// know what people try in the cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

func main() {
	os.Exit(realnode.Main(cluster.MainFunc(func() int { return run(context.Background(), os.Args[1:], os.Stderr) })))
}

// config is what the flags say.
type config struct {
	repo       string // The checkout, with bin/ built.
	plugin     string // The folder that has kubectl-liveconfig.
	box, image string // As in [site.Config].
	command    string // Empty: a shell.
}

func parse(args []string, output io.Writer) (config, error) {
	var cfg config
	fs := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	fs.SetOutput(output)
	fs.StringVar(&cfg.repo, "repo", "", "the checkout, an absolute path, with the programs of a node in bin/")
	fs.StringVar(&cfg.plugin, "plugin", "", "the folder that has kubectl-liveconfig")
	fs.StringVar(&cfg.box, "box", "", "the program of the stand-in images; empty: it is built")
	fs.StringVar(&cfg.image, "image", "", "an archive of the driver's image; empty: it is built")
	if err := fs.Parse(args); err != nil {
		return cfg, err
	}
	if fs.NArg() > 1 || cfg.repo == "" || cfg.plugin == "" {
		fs.Usage()
		return cfg, errors.New("wrong arguments")
	}
	cfg.command = fs.Arg(0)
	return cfg, nil
}

// run returns the exit status.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	cfg, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	code, err := session(ctx, cfg)
	ended, ok := errors.AsType[*signalError](context.Cause(ctx))
	if ok && (err != nil || !ended.fromKeyboard()) { // A command may have its own status for Ctrl-C.
		code = ended.status()
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "sandbox:", err)
		return max(code, 1)
	}
	return code
}

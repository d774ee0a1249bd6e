// Command mutation measures what the tests beside the code notice. It changes one operator at a time in the core packages,
// runs the tests of the package, and counts the changes that fail them. Gremlins finds the operators; this program draws a
// sample of them with a fixed seed, because all of them would take hours.
//
// It does not know what the code does. A change that no test notices may be one that nobody could notice.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// core lists the packages that are measured, and the share of changes, in percent, that their tests must notice at least.
// The floors are a few percent below what was measured with the default sample: other code has other changes in its sample.
func core() []target {
	return []target{
		{folder: "pkg/api", floor: 88},
		{folder: "pkg/files/treebuilder", floor: 92},
		{folder: "pkg/files/atomicdir", floor: 72},
		{folder: "pkg/driver/volume", floor: 70},
		{folder: "pkg/driver/source", floor: 82},
		{folder: "pkg/driver/access", floor: 80},
		{folder: "pkg/driver/state", floor: 83},
		{folder: "pkg/rollout/plan", floor: 85},
	}
}

type target struct {
	folder string
	floor  int
}

type options struct {
	repository string
	gremlins   string
	sample     int
	seed       uint64
	only       []string
}

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func command() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.repository, "repo", "..", "root of the repository")
	flag.StringVar(&o.gremlins, "gremlins", "", "path of gremlins; empty: bin/tools/gremlins of the repository")
	flag.IntVar(&o.sample, "sample", 60, "how many changes to try in each package")
	flag.Uint64Var(&o.seed, "seed", 1, "what decides which changes are tried")
	flag.Parse()
	o.only = flag.Args()
	return run(ctx, o, os.Stdout)
}

// run measures each package and prints one line for it, and one for each change that no test noticed.
func run(ctx context.Context, o options, out io.Writer) error {
	work, err := newWorkspace(ctx, o)
	if err != nil {
		return err
	}
	defer work.remove()
	below := 0
	for _, t := range core() {
		if len(o.only) > 0 && !slices.Contains(o.only, t.folder) {
			continue
		}
		found, err := work.mutants(ctx, t.folder)
		if err != nil {
			return fmt.Errorf("list the changes of %s: %w", t.folder, err)
		}
		tried := sample(found, o.sample, o.seed)
		if err := work.try(ctx, t.folder, tried); err != nil {
			return fmt.Errorf("test the changes of %s: %w", t.folder, err)
		}
		r := count(tried)
		_, _ = fmt.Fprintf(out, "%-24s %4d possible, %3d tried, %3d noticed, %3d not compiled: %3d %%\n",
			t.folder, len(found), len(tried), r.noticed, r.invalid, r.score())
		for _, m := range tried {
			if m.outcome == survived {
				_, _ = fmt.Fprintf(out, "    %s:%d:%d %s survived\n", m.file, m.line, m.column, m.kind)
			}
		}
		if r.score() < t.floor {
			below++
			_, _ = fmt.Fprintf(out, "    FAIL: at least %d %% is wanted\n", t.floor)
		}
	}
	if below > 0 {
		return fmt.Errorf("%d packages are below what is wanted", below)
	}
	return nil
}

// result counts the changes of one package.
type result struct{ tried, noticed, invalid int }

func count(mutants []*mutant) result {
	r := result{tried: len(mutants)}
	for _, m := range mutants {
		switch m.outcome {
		case noticed:
			r.noticed++
		case invalid:
			r.invalid++
		case survived:
		}
	}
	return r
}

// score returns the share of the changes, in percent, that the tests noticed. A change that does not compile does not count.
func (r result) score() int {
	if r.tried == r.invalid {
		return 0
	}
	return 100 * r.noticed / (r.tried - r.invalid)
}

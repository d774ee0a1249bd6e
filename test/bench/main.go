// Command bench measures liveconfig on a real node of this machine, beside what a user could have in its place and beside
// what nothing can be faster than, and writes what it found to RESULTS.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/machine"
)

func main() { os.Exit(machine.Main(program{})) }

// program is what runs in namespaces of its own.
type program struct{}

// Run returns the exit status.
func (program) Run() int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// options are what a user can say.
type options struct {
	repo, out, logs string
	quick           bool
	parts           []string
	volumes         []int
}

func parse(args []string) (options, error) {
	var o options
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.repo, "repo", "..", "the checkout, with bin/ built")
	fs.StringVar(&o.out, "out", "bench", "the folder of RESULTS.md")
	fs.StringVar(&o.logs, "logs", "", "the folder of the logs; empty: bin/test/bench of the checkout")
	fs.BoolVar(&o.quick, "quick", false, "take few samples")
	only := fs.String("only", strings.Join(names, ","), "what to measure")
	volumes := fs.String("volumes", "1,10,110", "the numbers of volumes of one object, from the smallest on")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.parts = strings.Split(*only, ",")
	for _, p := range o.parts {
		if !slices.Contains(names, p) {
			return o, fmt.Errorf("there is no part %q; there are %s", p, strings.Join(names, ", "))
		}
	}
	for text := range strings.SplitSeq(*volumes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return o, fmt.Errorf("--volumes: %w", err)
		}
		o.volumes = append(o.volumes, n)
	}
	var err error
	if o.repo, err = filepath.Abs(o.repo); err != nil {
		return o, err
	}
	o.logs = cmp.Or(o.logs, filepath.Join(o.repo, "bin", "test", "bench"))
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	result := report.Result{Begun: time.Now(), Quick: o.quick}
	s, err := site.Start(ctx, site.Config{Repo: o.repo, LogDir: o.logs, Output: out})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if result.Facts, err = facts(ctx, s); err != nil {
		return err
	}
	outcomes, err := measure(ctx, s, o)
	if err != nil {
		return errors.Join(fmt.Errorf("%w (logs: %s)", err, o.logs), s.KeepState(context.WithoutCancel(ctx)))
	}
	for _, one := range outcomes {
		result.Sections, result.Targets = append(result.Sections, one.section), append(result.Targets, one.targets...)
	}
	result.Took = time.Since(result.Begun)
	if err := result.Write(o.out); err != nil {
		return err
	}
	return result.WriteTargets(out)
}

// outcome is what a part has found.
type outcome struct {
	section report.Section
	targets []report.Target
}

// measure has the parts that are wanted do their work.
func measure(ctx context.Context, s *site.Site, o options) ([]outcome, error) {
	wanted := slices.DeleteFunc(parts(), func(p part) bool { return !slices.Contains(o.parts, p.name) })
	outcomes := make([]outcome, len(wanted))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, p := range wanted {
		work := func() (err error) {
			begin := time.Now()
			outcomes[i].section, outcomes[i].targets, err = p.measure(groupCtx, s, o)
			if err != nil {
				return fmt.Errorf("measure %s: %w", p.name, err)
			}
			s.Say("measured %s in %s", p.name, time.Since(begin).Round(time.Second))
			return nil
		}
		if p.waits && o.quick {
			group.Go(work)
			continue
		}
		if err := work(); err != nil {
			group.Go(func() error { return err }) // Which ends the others.
			break
		}
	}
	return outcomes, group.Wait()
}

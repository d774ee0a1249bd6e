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
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/bench/turn"
	"github.com/liveconfig-csi/liveconfig/test/kit/install"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

func main() { os.Exit(realnode.Main(program{})) }

// program is what runs in separate namespaces.
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

// options are what a user can say, and what all parts have.
type options struct {
	turns *turn.Turn // Had by the part that does something.

	repo, out, logs string
	quick           bool
	parts           []string
	volumes         []int
}

func parse(args []string) (options, error) {
	o := options{turns: turn.New()}
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.repo, "repo", "../..", "the checkout, with bin/ built")
	fs.StringVar(&o.out, "out", ".", "the folder of RESULTS.md")
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
	result := report.Result{Begun: time.Now(), Quick: o.quick, Summary: summary()}
	s, err := site.Start(ctx, install.Config{Repo: o.repo, LogDir: o.logs, Output: out})
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
	if err := remark(result, o, out); err != nil {
		return err
	}
	if err := result.Write(o.out); err != nil {
		return err
	}
	_, err = io.WriteString(out, result.TargetsTable())
	return err
}

// remarks is where people write what bounds the targets, by their keys, below the checkout.
const remarks = "test/bench/remarks.yaml"

// remark adds to the result what people have written about its targets.
func remark(result report.Result, o options, out io.Writer) error {
	text, err := os.ReadFile(filepath.Join(o.repo, remarks))
	if err != nil {
		return err
	}
	byKey := map[string]string{}
	if err := yaml.UnmarshalStrict(text, &byKey); err != nil {
		return fmt.Errorf("read %s: %w", remarks, err)
	}
	left := result.Remark(byKey)
	if len(left) == 0 || len(o.parts) < len(parts()) { // They may be about what was not measured.
		return nil
	}
	_, err = fmt.Fprintf(out, "%s is about targets that there are not: %s\n", remarks, strings.Join(left, ", "))
	return err
}

// outcome is what a part has found.
type outcome struct {
	section report.Section
	targets []report.Target
}

// headStart is what a quick run gives to those that wait for most of their time, so that they have their turns first.
const headStart = 5 * time.Second

// measure has the parts that are wanted do their work: at first those that wait for most of their time, together, and then each
// of the others alone. A quick run does not wait for the former.
func measure(ctx context.Context, s *site.Site, o options) ([]outcome, error) {
	wanted := slices.DeleteFunc(parts(), func(p part) bool { return !slices.Contains(o.parts, p.name) })
	outcomes := make([]outcome, len(wanted))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, p := range wanted {
		if p.waits {
			group.Go(func() error { return p.work(groupCtx, s, o, &outcomes[i]) })
		}
	}
	begun := site.Rest(groupCtx, headStart)
	if !o.quick {
		begun = group.Wait()
		group, groupCtx = errgroup.WithContext(ctx)
	}
	if begun != nil {
		return nil, cmp.Or(group.Wait(), begun)
	}
	for i, p := range wanted {
		if p.waits {
			continue
		}
		err := o.turns.Do(groupCtx, func(ctx context.Context) error { return p.work(ctx, s, o, &outcomes[i]) })
		if err != nil {
			group.Go(func() error { return err }) // Which ends the others.
			break
		}
	}
	return outcomes, group.Wait()
}

// work measures, and says so.
func (p part) work(ctx context.Context, s *site.Site, o options, to *outcome) (err error) {
	begin := time.Now()
	if to.section, to.targets, err = p.measure(ctx, s, o); err != nil {
		return fmt.Errorf("measure %s: %w", p.name, err)
	}
	s.Say("measured %s in %s", p.name, time.Since(begin).Round(time.Second))
	return nil
}

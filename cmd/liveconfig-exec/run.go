package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/readyfile"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/selfcopy"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/supervise"
)

// codeOwn is the code of mistakes that are not the command's, as env(1) has it.
const codeOwn = 125

// quiet is how long files must have been as they are before they are read again, and most how long
// they may make that wait.
const (
	quiet = 100 * time.Millisecond
	most  = 2 * time.Second
)

const program = "liveconfig-exec"

// run returns the code to exit with, unless the command takes the place of this process.
func run(ctx context.Context, args, environment []string, out, errOut io.Writer) int {
	log := newLog(errOut)
	o, err := parse(args)
	switch {
	case err != nil:
		log.problem("", err)
		return codeOwn
	case o.help:
		return show(out, usage)
	case o.version:
		return show(out, program+" "+version.Version()+"\n")
	case o.copyTo != "":
		return handOn(o.copyTo, log)
	}
	l := &loader{options: o, existing: environment, log: log}
	if o.onChange == supervise.Ignore {
		return l.replace(ctx)
	}
	return l.supervise(ctx)
}

func handOn(dir string, log *log) int {
	if err := selfcopy.To(dir, program); err != nil {
		log.problem("", err)
		return codeOwn
	}
	return 0
}

func show(out io.Writer, text string) int {
	if _, err := io.WriteString(out, text); err != nil {
		return codeOwn
	}
	return 0
}

// loader makes the environment out of files, again and again.
type loader struct {
	options  options
	existing []string
	log      *log
	// skipped is the last report of files that cannot be variables, with a digest of these files.
	skipped string
	// trouble is what was logged last about files that do not make an environment.
	trouble string
}

// replace has the command take the place of this process.
func (l *loader) replace(ctx context.Context) int {
	state, _, err := l.load(ctx)
	if err != nil {
		l.log.problem("", err)
		return codeOwn
	}
	return l.ended(0, supervise.Exec(l.options.command, state.Environment))
}

// ended returns why the command was not started, if it was not, and returns the code to exit with.
func (l *loader) ended(code int, err error) int {
	var start *supervise.StartError
	switch {
	case err == nil:
		return code
	case errors.As(err, &start):
		code = start.Code
	default:
		code = codeOwn
	}
	l.log.problem("", err)
	return code
}

// supervise runs the command as a child.
func (l *loader) supervise(ctx context.Context) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	first, set, err := l.load(ctx)
	if err != nil {
		l.log.problem("", err)
		return codeOwn
	}
	ready, err := l.readyMark()
	if err != nil {
		l.log.problem("--ready-file "+l.options.readyFile+": ", err)
		return codeOwn
	}
	watcher := fileset.NewWatcher(fileset.Config{Moment: fileset.EachWrite, Polling: l.polling})
	watcher.Watch(set)
	states := make(chan supervise.State)
	l.follow(ctx, watcher, states)
	return l.ended(supervise.Run(supervise.Config{
		Command: l.options.command, First: first, States: states,
		OnChange: l.options.onChange, Signal: l.options.signal,
		StopSignal: l.options.stop, Grace: l.options.grace, Log: l.log.line,
		Ready: ready, ReadyAfter: l.options.readyAfter,
	}))
}

// readyMark returns the file of --ready-file, which is not there yet; nil without that flag.
func (l *loader) readyMark() (supervise.Mark, error) {
	if l.options.readyFile == "" {
		return nil, nil //nolint:nilnil // No mark is not an error.
	}
	return readyfile.New(l.options.readyFile)
}

// follow starts to send the states that changes make, until the context ends.
func (l *loader) follow(ctx context.Context, watcher *fileset.Watcher, states chan<- supervise.State) {
	settled := make(chan struct{}, 1)
	go watcher.Run(ctx)
	go fileset.Settle(ctx, watcher.Changes(), settled, quiet, most)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-settled:
				l.reload(ctx, watcher, states)
			}
		}
	}()
}

// polling reports that changes are noticed later than usual, or at once again.
func (l *loader) polling(reason error) {
	if reason == nil {
		l.log.line("the kernel reports changes of the files again")
		return
	}
	l.log.line("the files are looked at every %s, because the kernel cannot report their changes: %v",
		fileset.PollInterval, reason)
}

// reload sends the state after a change. If it cannot be read, the command goes on as it is, and
// the log has the reason.
func (l *loader) reload(ctx context.Context, watcher *fileset.Watcher, states chan<- supervise.State) {
	state, set, err := l.load(ctx)
	watcher.Watch(set)
	if err != nil {
		if text := err.Error(); text != l.trouble {
			l.trouble = text
			l.log.problem("the environment stays as it is: ", err)
		}
		return
	}
	l.trouble = ""
	select {
	case <-ctx.Done():
	case states <- state:
	}
}

// load reads the files and builds the environment. The set is good for being watched, also beside
// an error.
func (l *loader) load(ctx context.Context) (supervise.State, fileset.Set, error) {
	set, err := fileset.Read(ctx, l.options.sources)
	if err != nil {
		return supervise.State{}, set, err
	}
	limits, err := limits()
	if err != nil {
		return supervise.State{}, set, err
	}
	built, err := environ.Build(l.existing, l.options.sources, set.Contents, l.options.wins, limits)
	if err != nil {
		return supervise.State{}, set, err
	}
	l.report(built.Skipped)
	// While the old environment is still there to go on with, the new one must be known to be
	// acceptable to the kernel.
	if err := limits.Check(l.options.command, built.Variables); err != nil {
		return supervise.State{}, set, err
	}
	return supervise.State{Environment: built.Variables, Files: environ.DigestOf(set.Contents)}, set, nil
}

// report logs which files cannot be variables, once for each content of these files.
func (l *loader) report(skipped []environ.Skip) {
	var lines []string
	var contents []environ.Content
	for _, s := range skipped {
		lines = append(lines, s.String())
		contents = append(contents, environ.Content{Files: s.Files})
	}
	text := strings.Join(lines, "\n")
	reported := fmt.Sprint(text, environ.DigestOf(contents))
	if text != "" && reported != l.skipped {
		l.log.text(text)
	}
	l.skipped = reported
}

// limits returns what the kernel takes for a program that this process starts.
func limits() (environ.Limits, error) {
	var stack unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &stack); err != nil {
		return environ.Limits{}, fmt.Errorf("get the limit of the stack: %w", err)
	}
	return environ.LimitsFor(stack.Cur, os.Getpagesize()), nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/reload"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/selfcopy"
)

const program = "liveconfig-reload"

// Exit codes.
const (
	exitOK    = 0
	exitUsage = 125 // The command line is wrong, or what it asks for cannot begin.
)

// lessMemory is how much garbage may be there beside what is used, in percent: the program rests
// nearly always.
const lessMemory = 25

// run runs until a signal ends it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %v\n%s: --help prints what there is\n", program, err, program)
		return exitUsage
	case o.help:
		_, _ = io.WriteString(stdout, usage)
		return exitOK
	case o.version:
		_, _ = fmt.Fprintln(stdout, program, version.Version())
		return exitOK
	case o.copyTo != "":
		return handOn(o.copyTo, stderr)
	}
	debug.SetGCPercent(lessMemory)
	runtime.GOMAXPROCS(1) // Each processor has caches.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serve(ctx, o, &log{out: stderr}); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return exitUsage
	}
	return exitOK
}

// handOn copies this program into a directory.
func handOn(dir string, stderr io.Writer) int {
	if err := selfcopy.To(dir, program); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return exitUsage
	}
	return exitOK
}

// serve runs the reloader and answers questions about it until the context ends.
func serve(ctx context.Context, o options, l *log) error {
	var listener net.Listener
	if o.listen != "" {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher := fileset.NewWatcher(fileset.Config{Moment: fileset.WhenClosed, Polling: l.polling})
	settled := make(chan struct{}, 1)
	r := reload.New(o.config(reload.Directory{Path: o.watch, Watcher: watcher}, settled, l))
	var running sync.WaitGroup
	running.Go(func() { watcher.Run(ctx) })
	running.Go(func() { fileset.Settle(ctx, watcher.Changes(), settled, o.settle, max(mostSettle, o.settle)) })
	running.Go(func() { r.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if listener == nil {
		<-ctx.Done()
		return nil
	}
	return answer(ctx, listener, reload.Handler(r.Status))
}

// mostSettle is how long files may go on changing until the program reads them all the same.
const mostSettle = 2 * time.Second

// answer answers requests until the context ends.
func answer(ctx context.Context, listener net.Listener, handler http.Handler) error {
	const patience, most = 5 * time.Second, 4 << 10
	server := &http.Server{
		Handler: handler, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience, MaxHeaderBytes: most,
	}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() }) // At once: the pod ends.
	defer ended()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// config returns what the reloader does, by the flags.
func (o options) config(dir reload.Directory, settled <-chan struct{}, l *log) reload.Config {
	web := reload.NewWeb()
	if o.allowRemote {
		web = reload.NewRemoteWeb()
	}
	cfg := reload.Config{
		Read: dir.Read, Changes: settled, Timeout: o.timeout, Retries: o.retries, InitialWait: o.wait, AtStart: o.atStart,
		Verify: func(context.Context) error { return nil }, Rest: giveMemoryBack,
		Report: func(s reload.Status) {
			l.status(s)
			if o.reportFile == "" {
				return
			}
			if err := reload.WriteReport(o.reportFile, s); err != nil {
				l.line("could not write the report: %v", err)
			}
		},
	}
	switch {
	case o.request.URL != "":
		cfg.Act = func(ctx context.Context) error { return web.Send(ctx, o.request) }
	case o.signal != 0:
		cfg.Act = func(context.Context) error { return o.target.Signal(o.signal) }
	default:
		cfg.Act = func(ctx context.Context) error { return reload.Run(ctx, o.command) }
	}
	if o.verify.URL != "" {
		cfg.Verify = func(ctx context.Context) error { return web.Verify(ctx, o.verify) }
	}
	return cfg
}

// log writes lines that name this program.
type log struct {
	mu   sync.Mutex // Guards out, and last.
	out  io.Writer
	last reload.Status
}

func (l *log) line(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lineLocked(format, args...)
}

func (l *log) lineLocked(format string, args ...any) {
	// There is no other place to report that to.
	_, _ = fmt.Fprintf(l.out, "%s %s: %s\n", time.Now().UTC().Format(time.RFC3339), program, fmt.Sprintf(format, args...))
}

func (l *log) polling(reason error) {
	if reason != nil {
		l.line("the kernel reports no changes, so the files are looked at every second: %v", reason)
		return
	}
	l.line("the kernel reports changes again")
}

// status writes a line for each outcome: one that is as the one before has none.
func (l *log) status(s reload.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last
	l.last = s
	switch {
	case s.Successes != last.Successes:
		l.lineLocked("the program has read content %d (%d files) after %s", s.Loaded, s.Files, s.Took.Round(time.Millisecond))
	case s.Failure != "" && (s.Failure != last.Failure || s.Failed != last.Failed):
		l.lineLocked("content %d is not in use: %s", s.Content, s.Failure)
	case s.Content == 1 && last.Content == 0 && s.Loaded == 1:
		l.lineLocked("watching %d files", s.Files)
	}
}

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/programs"
)

// server is liveconfig-exec with a server that drains, and the configuration of the server.
type server struct {
	process

	dir string
}

// serving starts a server that drains after the signal stop.
func serving(t *testing.T, arrange arrangement, stop string, flags ...string) server {
	t.Helper()
	p, dir := startIn(t, arrange, flags, "drain", stop, "A")
	p.isServing(t, "A=1")
	return server{p, dir}
}

// gets sends a signal and waits until the server has got it.
func (s server) gets(t *testing.T, sig syscall.Signal) {
	t.Helper()
	s.Sends(t, sig)
	s.Prints(t, sig.String())
}

// hasNoticed changes the configuration, and waits until liveconfig-exec has read it.
func (s server) hasNoticed(t *testing.T, value string) {
	t.Helper()
	write(t, s.dir, "A", value)
	write(t, s.dir, "no="+value, "")
	s.Stderr.WaitFor(t, `"no=`+value+`"`)
}

// endsWorker ends the worker by its number here, which is another one in the namespace of a container.
func (s server) endsWorker(t *testing.T) {
	t.Helper()
	var workers []int
	for _, master := range childrenOf(s.Process.Pid) {
		workers = append(workers, childrenOf(master)...)
	}
	if len(workers) != 1 {
		t.Fatalf("workers = %v, want one", workers)
	}
	expect.NoError(t, unix.Kill(workers[0], unix.SIGKILL))
}

// waits is in what liveconfig-exec prints about a change that it does not act on yet.
const waits = "the change waits"

// TestADrainIsNotInterrupted stops servers by the signals of the images of nginx (QUIT), PostgreSQL (INT), HAProxy (USR1) and
// Apache httpd (WINCH). A change during the drain must not end the server.
// This is fault 41.
func TestADrainIsNotInterrupted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stop  string
		flags []string
		waits bool // Without a flag, nothing more is known than that the signal may have been the last.
	}{
		"QUIT":                  {"SIGQUIT", nil, true},
		"INT":                   {"SIGINT", nil, true},
		"USR1":                  {"SIGUSR1", nil, true},
		"WINCH":                 {"SIGWINCH", nil, true},
		"QUIT by flag":          {"SIGQUIT", []string{"--stop-signal=QUIT"}, false},
		"WINCH by flag":         {"SIGWINCH", []string{"--stop-signal", "SIGWINCH"}, false},
		"USR2 by flag":          {"SIGUSR2", []string{"--stop-signal=usr2"}, false},
		"HUP by number":         {"SIGHUP", []string{"--stop-signal=1"}, false},
		"by flag without grace": {"SIGQUIT", []string{"--stop-signal=QUIT", "--grace=0s"}, false},
		"QUIT and reload":       {"SIGQUIT", []string{"--on-change=signal:HUP"}, true},
		"QUIT and exit":         {"SIGQUIT", []string{"--on-change=exit"}, true},
	}
	for place, arrange := range places() {
		for name, tt := range tests {
			t.Run(place+" "+name, func(t *testing.T) {
				t.Parallel()
				s := serving(t, arrange, tt.stop, append([]string{"--on-change=restart"}, tt.flags...)...)
				s.gets(t, unix.SignalNum(tt.stop))
				s.hasNoticed(t, "2")
				if tt.waits {
					s.Stderr.WaitFor(t, waits)
				}
				s.hasNoticed(t, "3")
				s.endsWorker(t)
				s.Ends(t, "drained\n", 0)
				if got := strings.Count(s.Stderr.String(), waits); got != map[bool]int{true: 1}[tt.waits] {
					t.Errorf("a change that waits was reported %d times, want it: %t; standard error:\n%s", got, tt.waits, s.Stderr)
				}
			})
		}
	}
}

// TestASignalThatDoesNotStop: a change waits for the grace time after the first signal that may stop a program, and no longer:
// log rotation and a terminal whose size changes must not end all updates. This is fault 41.
func TestASignalThatDoesNotStop(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{unix.SIGUSR1, unix.SIGWINCH, unix.SIGQUIT, unix.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			const grace = 4 * time.Second
			s := serving(t, asFirst, "SIGUSR2", "--on-change=restart", "--grace", grace.String())
			before := time.Now()
			s.gets(t, sig)
			write(t, s.dir, "A", "2")
			s.Stderr.WaitFor(t, waits)
			s.gets(t, sig) // This one does not make the change wait longer.
			s.Prints(t, "terminated")
			if took := time.Since(before); took < grace {
				t.Errorf("the program was ended %s after the signal, want %s at least", took, grace)
			}
			s.isServing(t, "A=2")
			for _, value := range []string{"3", "4"} {
				s.gets(t, sig) // The program has outlived this signal.
				write(t, s.dir, "A", value)
				s.restarts(t, "A="+value)
			}
			if got := strings.Count(s.Stderr.String(), waits); got != 1 {
				t.Errorf("a change waited %d times, want once; standard error:\n%s", got, s.Stderr)
			}
		})
	}
}

// TestNothingWaitsWithoutADoubt: these signals do not delay a change, though the grace time is longer than the test.
func TestNothingWaitsWithoutADoubt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		signals []syscall.Signal
		flags   []string
		change  string // What the program hears after a change.
	}{
		"reload":                    {[]syscall.Signal{unix.SIGHUP, unix.SIGUSR2}, []string{"--on-change=restart"}, "terminated"},
		"a thread dump":             {[]syscall.Signal{unix.SIGQUIT}, []string{"--on-change=restart", "--stop-signal=TERM"}, "terminated"},
		"log rotation":              {[]syscall.Signal{unix.SIGUSR1}, []string{"--on-change=restart", "--stop-signal=RTMIN+3"}, "signal 37"},
		"a reload by somebody else": {[]syscall.Signal{unix.SIGUSR1}, []string{"--on-change=signal:USR1"}, "user defined signal 1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serving(t, asFirst, "SIGABRT", tt.flags...)
			for _, sig := range tt.signals {
				s.gets(t, sig)
			}
			write(t, s.dir, "A", "2")
			s.Prints(t, tt.change)
			if strings.Contains(s.Stderr.String(), waits) {
				t.Errorf("the change has waited; standard error:\n%s", s.Stderr)
			}
		})
	}
}

// TestAResizedTerminalDelaysNothing: the kernel sends the signal to the program, so nobody takes it for a stop.
func TestAResizedTerminalDelaysNothing(t *testing.T) {
	t.Parallel()
	keyboard, screen := programs.OpenTerminal(t)
	p, dir := startIn(t, programs.OnTerminal(screen), []string{"--on-change=restart"}, "show", "A")
	p.isServing(t, "A=1")
	hasTerminal(t, p, keyboard)
	for rows := range uint16(5) {
		expect.NoError(t, unix.IoctlSetWinsize(int(keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows + 10, Col: 80}))
		p.printsNext(t, "window changed")
	}
	write(t, dir, "A", "2")
	p.printsNext(t, "terminated")
	if strings.Contains(p.Stderr.String(), waits) {
		t.Errorf("the change has waited; standard error:\n%s", p.Stderr)
	}
}

// TestAChangeThatIsTakenBack while it waits ends nothing.
func TestAChangeThatIsTakenBack(t *testing.T) {
	t.Parallel()
	const grace = 4 * time.Second
	s := serving(t, asAnother, "SIGUSR2", "--on-change=restart", "--grace", grace.String())
	s.gets(t, unix.SIGUSR1)
	write(t, s.dir, "A", "2")
	s.Stderr.WaitFor(t, waits)
	s.hasNoticed(t, "1")
	<-time.After(grace)
	s.gets(t, unix.SIGHUP)
	write(t, s.dir, "A", "3")
	s.restarts(t, "A=3")
}

// TestARestartSendsTheStopSignal, which lets the program drain.
func TestARestartSendsTheStopSignal(t *testing.T) {
	t.Parallel()
	s := serving(t, asFirst, "SIGQUIT", "--on-change=restart", "--stop-signal=QUIT")
	write(t, s.dir, "A", "2")
	s.Prints(t, "quit")
	s.endsWorker(t)
	s.Prints(t, "drained")
	s.isServing(t, "A=2")
}

// TestTheStopSignalEndsARestart: the program is not started again in a container that is being stopped. This is fault 41.
func TestTheStopSignalEndsARestart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		flags []string
		sig   syscall.Signal
		final bool
	}{
		"by flag":                 {[]string{"--stop-signal=WINCH"}, unix.SIGWINCH, true},
		"QUIT without the flag":   {nil, unix.SIGQUIT, true},
		"USR1 without the flag":   {nil, unix.SIGUSR1, false}, // A rotation of logs must not end the container.
		"QUIT with another flag":  {[]string{"--stop-signal=USR2"}, unix.SIGQUIT, false},
		"TERM with another flag":  {[]string{"--stop-signal=USR2"}, unix.SIGTERM, true},
		"the signal of a restart": {[]string{"--stop-signal=QUIT"}, unix.SIGQUIT, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, dir := startIn(t, asFirst, append([]string{"--on-change=restart", "--grace=3s"}, tt.flags...), "stubborn", "A")
			p.Prints(t, "ready A=1")
			write(t, dir, "A", "2")
			p.Stderr.WaitFor(t, "is restarted")
			p.Sends(t, tt.sig)
			if tt.final {
				p.Ends(t, "", 137)
				return
			}
			p.Prints(t, "ready A=2")
		})
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

const (
	// beExec makes the test binary be liveconfig-exec.
	beExec = "LIVECONFIG_EXEC_TEST"
	// play is the argument behind which it plays a command.
	play = "play-the-command"
	// promptly holds options of the race detector. Without them a program waits for a second before it exits.
	promptly = "atexit_sleep_ms=0"
	// patience is how long anything may take; it takes a fraction.
	patience = 15 * time.Second
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == play {
		os.Exit(playCommand(os.Args[2], os.Args[3:]))
	}
	if os.Getenv(beExec) != "" {
		_ = os.Unsetenv(beExec)
		main()
	}
	testscript.Main(m, map[string]func(){"liveconfig-exec": main})
}

// process is liveconfig-exec, started by a test.
type process struct {
	*exec.Cmd

	pipe   *os.File // Where stdout comes from.
	stdout *bufio.Reader
	stderr *lines
}

// lines is a stream that a test looks into while it is written.
type lines struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // It has a place.
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// waitFor waits until the stream has a text.
func (l *lines) waitFor(t *testing.T, text string) {
	t.Helper()
	l.waitForTimes(t, text, 1)
}

// waitForTimes waits until the stream has a text that often, or more often.
func (l *lines) waitForTimes(t *testing.T, text string, times int) {
	t.Helper()
	end := time.After(patience)
	for strings.Count(l.String(), text) < times {
		select {
		case <-l.changed:
		case <-end:
			t.Fatalf("standard error is %q, want %q in it (%d times)", l, text, times)
		}
	}
}

// arrangement changes how a process is started.
type arrangement func(*exec.Cmd)

// asFirst has it be the first process of a namespace, as in a container.
func asFirst(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		Setsid:      true,
	}
}

// asAnother has it be a process like others, without a terminal.
func asAnother(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// places are those where it must work alike.
func places() map[string]arrangement {
	return map[string]arrangement{"the first process": asFirst, "another process": asAnother}
}

// start starts liveconfig-exec with a role as its command. It and all it has started are gone when the test is over.
func start(t *testing.T, arrange arrangement, flags []string, role ...string) *process {
	t.Helper()
	catchIgnored()
	ctx, cancel := context.WithTimeout(context.Background(), 8*patience)
	args := append(append(flags, "--", executable(t), play), role...)
	p := &process{Cmd: exec.CommandContext(ctx, executable(t), args...), stderr: &lines{changed: make(chan struct{}, 1)}}
	p.Env = append(os.Environ(), beExec+"=1", "GORACE="+promptly, "GOCOVERDIR="+t.TempDir())
	p.Stderr = p.stderr
	// Do not wait for processes that outlive the command.
	p.WaitDelay = time.Second
	arrange(p.Cmd)
	out, err := p.StdoutPipe()
	must(t, err)
	p.pipe, p.stdout = out.(*os.File), bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatalf("start (are user namespaces allowed?): %v", err)
	}
	t.Cleanup(func() {
		for _, pid := range childrenOf(p.Process.Pid) { // A deaf one would outlive the test.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		cancel()
		_ = p.Wait()
	})
	return p
}

// startIn is [start] with a new directory, in which A is 1. It returns the directory too.
func startIn(t *testing.T, arrange arrangement, flags []string, role ...string) (p *process, dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, "A", "1")
	return start(t, arrange, append([]string{"--from", dir}, flags...), role...), dir
}

// catchIgnored gives the programs that the tests start the default action for signals that the tests inherited as ignored,
// as under nohup or in the background of a shell. A child inherits ignored signals, but not caught ones. The tests drop the
// signals that they catch.
func catchIgnored() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// childrenOf returns the processes that one has started; none if it has ended.
func childrenOf(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // Each thread has its own.
	var found []int
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	return path
}

// says checks the next line of the output.
func (p *process) says(t *testing.T, want string) {
	t.Helper()
	if got := p.line(t); got != want {
		t.Fatalf("line = %q, want %q; standard error:\n%s", got, want, p.stderr)
	}
}

// saysNext is [process.says] after lines about SIGCONT. With it comes a terminal, before or after a command can hear it.
func (p *process) saysNext(t *testing.T, want string) {
	t.Helper()
	for {
		if got := p.line(t); got != "continued" {
			if got != want {
				t.Fatalf("line = %q, want %q; standard error:\n%s", got, want, p.stderr)
			}
			return
		}
	}
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	must(t, p.pipe.SetReadDeadline(time.Now().Add(patience)))
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("output ends with %q, %v; standard error:\n%s", line, err, p.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

// isServing checks that the command has been started with variables.
func (p *process) isServing(t *testing.T, variables string) {
	t.Helper()
	p.says(t, "ready "+variables)
	p.says(t, "serving")
}

// restarts checks that the command ends and is started again with variables.
func (p *process) restarts(t *testing.T, variables string) {
	t.Helper()
	p.says(t, "terminated")
	p.isServing(t, variables)
}

// terminates ends the command, and liveconfig-exec with it.
func (p *process) terminates(t *testing.T) {
	t.Helper()
	p.sends(t, unix.SIGTERM)
	p.ends(t, "terminated\n", 0)
}

// sends sends it a signal.
func (p *process) sends(t *testing.T, sig syscall.Signal) {
	t.Helper()
	must(t, p.Process.Signal(sig))
}

// ends waits for the end, and checks what was not read of the output yet and the code.
func (p *process) ends(t *testing.T, output string, code int) {
	t.Helper()
	must(t, p.pipe.SetReadDeadline(time.Now().Add(patience)))
	rest, err := io.ReadAll(p.stdout)
	must(t, err)
	_ = p.Wait() // The state has the exit code.
	if got := p.ProcessState.ExitCode(); got != code || string(rest) != output {
		t.Errorf("output and code = %q, %d, want %q, %d; standard error:\n%s", rest, got, output, code, p.stderr)
	}
}

// write replaces a file of a plain directory by rename.
func write(t *testing.T, dir, name, data string) {
	t.Helper()
	temp := filepath.Join(t.TempDir(), "temp")
	must(t, os.WriteFile(temp, []byte(data), 0o600))
	must(t, os.Rename(temp, filepath.Join(dir, name)))
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	must(t, os.Remove(filepath.Join(dir, name)))
}

// eventually waits until a look finds what it wants, and fails with what it found last.
func eventually(t *testing.T, look func() error) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	end := time.After(patience)
	for {
		err := look()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-end:
			t.Fatal(err)
		}
	}
}

// TestScripts are the command line: what it prints, and with which code it ends.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup:               func(env *testscript.Env) error { env.Setenv("GORACE", promptly); return nil },
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": code},
	})
}

// code runs a program and compares the code with which it ends: code 125 liveconfig-exec ...
func code(ts *testscript.TestScript, neg bool, args []string) { //nolint:revive // testscript wants it so.
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code NUMBER PROGRAM ARGUMENT...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("run %s: %v", args[1], err)
		}
		got = fmt.Sprint(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("%s ends with code %s, want %s", args[1], got, args[0])
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/programs"
)

const (
	// beExec makes the test binary be liveconfig-exec.
	beExec = "LIVECONFIG_EXEC_TEST"
	// play is the argument behind which it plays a command.
	play = "play-the-command"
	// promptly holds options of the race detector. Without them a program waits for a second before it exits.
	promptly = "atexit_sleep_ms=0"
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
type process struct{ *programs.Program }

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
func start(t *testing.T, arrange arrangement, flags []string, role ...string) process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*programs.Patience)
	args := append(append(flags, "--", executable(t), play), role...)
	cmd := exec.CommandContext(ctx, executable(t), args...)
	cmd.Env = append(os.Environ(), beExec+"=1", "GORACE="+promptly, "GOCOVERDIR="+t.TempDir())
	arrange(cmd)
	t.Cleanup(cancel)
	p := process{programs.Start(t, cmd)}
	t.Cleanup(func() {
		for _, pid := range childrenOf(p.Process.Pid) { // A deaf one would outlive the test.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	return p
}

// startIn is [start] with a new directory, in which A is 1. It returns the directory too.
func startIn(t *testing.T, arrange arrangement, flags []string, role ...string) (p process, dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, "A", "1")
	return start(t, arrange, append([]string{"--from", dir}, flags...), role...), dir
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
	expect.NoError(t, err)
	return path
}

// printsNext is [programs.Program.Prints] after lines about SIGCONT. With it comes a terminal, before or after a command can hear it.
func (p process) printsNext(t *testing.T, want string) {
	t.Helper()
	for {
		if got := p.Line(t); got != "continued" {
			if got != want {
				t.Fatalf("line = %q, want %q; standard error:\n%s", got, want, p.Stderr)
			}
			return
		}
	}
}

// isServing checks that the command has been started with variables.
func (p process) isServing(t *testing.T, variables string) {
	t.Helper()
	p.Prints(t, "ready "+variables)
	p.Prints(t, "serving")
}

// restarts checks that the command ends and is started again with variables.
func (p process) restarts(t *testing.T, variables string) {
	t.Helper()
	p.Prints(t, "terminated")
	p.isServing(t, variables)
}

func (p process) terminates(t *testing.T) {
	t.Helper()
	p.Sends(t, unix.SIGTERM)
	p.Ends(t, "terminated\n", 0)
}

// write replaces a file of a plain directory by rename.
func write(t *testing.T, dir, name, data string) {
	t.Helper()
	temp := filepath.Join(t.TempDir(), "temp")
	expect.NoError(t, os.WriteFile(temp, []byte(data), 0o600))
	expect.NoError(t, os.Rename(temp, filepath.Join(dir, name)))
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	expect.NoError(t, os.Remove(filepath.Join(dir, name)))
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

// TestPageOfFlags compares what --help prints about the flags with docs/flags.md, and with the flags that there are.
func TestPageOfFlags(t *testing.T) {
	var rows [][]string
	described := map[string]bool{}
	for line := range strings.Lines(usage) {
		if found := regexp.MustCompile(`^  (--([a-z-]+)\S*(?: \S+)?)  +(\S.*)$`).FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			rows = append(rows, []string{"`" + found[1] + "`", found[3]})
			described[found[2]] = true
		} else if more := strings.TrimPrefix(line, strings.Repeat(" ", 32)); more != line && len(rows) > 0 {
			rows[len(rows)-1][1] += " " + more
		}
	}
	for name := range flags() {
		if !described[name] {
			t.Errorf("--help does not describe --%s", name)
		}
	}
	docs.Table{Page: "flags.md", Name: "liveconfig-exec", Columns: []string{"flag", "meaning"}, Rows: rows}.Compare(t)
}

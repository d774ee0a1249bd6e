package reload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// start starts a program of a name that writes a line to a file for each signal USR1.
func start(t *testing.T, name string) (pid int, signals func() int) {
	t.Helper()
	dir := t.TempDir()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	script := fmt.Sprintf("trap 'echo usr1 >> %[1]s' USR1; echo ready > %[1]s; while :; do sleep 0.05; done", log)
	cmd := exec.CommandContext(t.Context(), shell, "-c", script)
	cmd.Args[0] = "/opt/" + name
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	count := func(text string) int {
		data, _ := os.ReadFile(log)
		return strings.Count(string(data), text)
	}
	becomes(t, "it is ready", func() bool { return count("ready") == 1 })
	return cmd.Process.Pid, func() int { return count("usr1") }
}

// becomes waits until what a process does is done.
func becomes(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	expect.Eventually(t, time.Minute, func() error {
		if !isSo() {
			return fmt.Errorf("it never comes to this: %s", what)
		}
		return nil
	})
}

// TestSignals reach the oldest process of a name, or the one that a file has the number of.
func TestSignals(t *testing.T) {
	t.Parallel()
	name := fmt.Sprint("program-with-a-long-name-", os.Getpid())
	pid, ofOld := start(t, name)
	time.Sleep(20 * time.Millisecond) //nolint:forbidigo // The kernel counts the starts of processes in ticks.
	_, ofYoung := start(t, name)
	if err := (Target{Name: name, Proc: "/proc"}).Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the oldest has a signal", func() bool { return ofOld() == 1 })
	file := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(file, []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Target{PIDFile: file, Proc: "/proc"}).Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the same has a second one", func() bool { return ofOld() == 2 })
	if ofYoung() != 0 {
		t.Error("the younger process has a signal too")
	}
}

// TestNoProcess is one that is not up, and a file that names no program is a mistake.
func TestNoProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		target Target
		isUp   bool
		want   string
	}{
		"of that name":        {Target{Name: "no-such-program"}, false, "shareProcessNamespace"},
		"no file":             {Target{PIDFile: filepath.Join(dir, "none")}, false, "there is no file"},
		"no number":           {Target{PIDFile: write("text", "nginx")}, true, "has no number"},
		"a negative number":   {Target{PIDFile: write("negative", "-1")}, true, "has no number"},
		"a number of nobody":  {Target{PIDFile: write("nobody", "4194304")}, false, ""},
		"the first process":   {Target{PIDFile: write("first", "1")}, true, "gets no signal unless --process names it"},
		"this process itself": {Target{PIDFile: write("self", strconv.Itoa(os.Getpid()))}, true, "shareProcessNamespace"},
	} {
		tt.target.Proc = "/proc"
		err := tt.target.Signal(syscall.SIGUSR1)
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrNotUp) == tt.isUp {
			t.Errorf("%s: %v, want %q, and that it is up: %t", name, err, tt.want, tt.isUp)
		}
	}
}

// TestRun: the error has the exit code alone, and a command that does not end is killed with its children.
func TestRun(t *testing.T) {
	t.Parallel()
	if err := Run(t.Context(), []string{"true"}); err != nil {
		t.Error(err)
	}
	err := Run(t.Context(), []string{"sh", "-c", "echo " + secret + "; echo " + secret + " >&2; exit 3"})
	if err == nil || err.Error() != "sh: exit status 3" {
		t.Errorf("err = %v, want the exit code", err)
	}
	if err := Run(t.Context(), []string{"no-such-command"}); err == nil {
		t.Error("a command that does not exist has run")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	file := filepath.Join(t.TempDir(), "child")
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, []string{"sh", "-c", "sleep 60 & echo $! > " + file + "; wait"}) }()
	var child int
	becomes(t, "the child has begun", func() bool {
		text, _ := os.ReadFile(file)
		line, isWhole := strings.CutSuffix(string(text), "\n")
		child, err = strconv.Atoi(line)
		return isWhole && err == nil
	})
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "did not end in time") {
		t.Errorf("err = %v", err)
	}
	becomes(t, "the child has ended", func() bool {
		_, isAlive := (Target{Proc: "/proc"}).started(child)
		return !isAlive
	})
}

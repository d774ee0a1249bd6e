package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

const (
	// programVariable turns this test binary into the sandbox.
	programVariable = "LIVECONFIG_TEST_SANDBOX"
	// startTimeout is many times what a sandbox takes to start.
	startTimeout = 5 * time.Minute
	// goneTimeout is how long the kernel may take to end all processes of a sandbox that was
	// killed.
	goneTimeout = 30 * time.Second
)

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is a sandbox.
type program struct {
	*exec.Cmd

	temp           string // The folder of its temporary files, which no other sandbox uses.
	stdout, stderr *screen
}

// newProgram prepares a sandbox, which a test starts.
func newProgram(t *testing.T, temp string, args ...string) *program {
	t.Helper()
	repo, err := environment.Repo()
	expect.NoError(t, err)
	plugin := filepath.Dir(environment.Plugin(t))
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	t.Cleanup(cancel)
	p := &program{temp: temp, stdout: &screen{}, stderr: &screen{}}
	p.Cmd = exec.CommandContext(ctx, os.Args[0], append([]string{"--repo=" + repo, "--plugin=" + plugin, "--"}, args...)...)
	p.Env = append(os.Environ(), programVariable+"=1", "TMPDIR="+temp, "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = p.stdout, p.stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the sandbox printed\n%s\nand on stderr\n%s", p.stdout.text(), p.stderr.text())
		}
	})
	return p
}

func (p *program) start(t *testing.T) {
	t.Helper()
	expect.NoError(t, p.Start())
}

// wantStatus waits for the end.
func (p *program) wantStatus(t *testing.T, want int) {
	t.Helper()
	_ = p.Wait() // ProcessState has the result.
	if got := p.ProcessState.ExitCode(); got != want {
		t.Errorf("%s, want exit status %d", p.ProcessState, want)
	}
}

// inner is the process in the namespaces, which the first process waits for.
func (p *program) inner(t *testing.T) int {
	t.Helper()
	var children []string
	for _, path := range glob(t, fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid)) {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		children = append(children, strings.Fields(string(text))...)
	}
	if len(children) != 1 {
		t.Fatalf("the sandbox has the children %q, want one", children)
	}
	pid, err := strconv.Atoi(children[0])
	expect.NoError(t, err)
	return pid
}

// processes returns those in some namespaces, such as net:[4026531840], and those whose command
// lines name the folder of temporary files.
func (p *program) processes(t *testing.T, namespaces []string) (found []string) {
	t.Helper()
	for _, dir := range glob(t, "/proc/[0-9]*") {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // It has ended.
		}
		isOurs := strings.Contains(string(line), p.temp)
		for _, kind := range []string{"mnt", "net", "pid"} {
			link, err := os.Readlink(filepath.Join(dir, "ns", kind))
			isOurs = isOurs || err == nil && strings.Contains(strings.Join(namespaces, " "), link)
		}
		if isOurs {
			found = append(found, dir+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// wantNoProcesses waits: the kernel ends them when the program is gone.
func (p *program) wantNoProcesses(t *testing.T, namespaces []string) {
	t.Helper()
	if len(namespaces) != 3 {
		t.Fatalf("the namespaces are %q, want three", namespaces)
	}
	expect.Eventually(t, goneTimeout, func() error {
		if left := p.processes(t, namespaces); len(left) > 0 {
			return fmt.Errorf("processes are left: %q", left)
		}
		return nil
	})
}

// wantNothing wants no file, mount or control group to be left.
func (p *program) wantNothing(t *testing.T, inner int) {
	t.Helper()
	left := glob(t, filepath.Join(p.temp, "*"))
	group := fmt.Sprintf("lc-machine-%d-*", inner)
	left = append(left, append(glob(t, "/sys/fs/cgroup/"+group), glob(t, "/sys/fs/cgroup/*/"+group)...)...)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	expect.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, p.temp) {
			left = append(left, line)
		}
	}
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	expect.NoError(t, err)
	return found
}

// screen holds what was printed.
type screen struct {
	mu     sync.Mutex // Guards the buffer.
	buffer bytes.Buffer
}

// Write never fails.
func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(data)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.String()
}

// await returns when a text was printed.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	expect.Eventually(t, startTimeout, func() error {
		if !strings.Contains(s.text(), text) {
			return fmt.Errorf("%q is not printed", text)
		}
		return nil
	})
}

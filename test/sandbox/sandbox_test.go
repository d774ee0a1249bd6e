package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// namespaces prints the three of the shell in one line.
const namespaces = `echo namespaces: $(readlink /proc/self/ns/mnt /proc/self/ns/net /proc/self/ns/pid) .`

// namespacesIn returns the namespaces of that line.
func namespacesIn(text string) []string {
	return regexp.MustCompile(`(mnt|net|pid):\[\d+\]`).FindAllString(text, -1)
}

// TestCommand runs an example by one command line. The sandbox returns its exit status and leaves
// nothing behind.
//
// It is not parallel, as the others: one cluster at a time is enough for a small machine.
func TestCommand(t *testing.T) {
	p := newProgram(t, t.TempDir(), namespaces+`
set -eu
kubectl get csidriver,nodes -o name
kubectl -n liveconfig-system get deployment liveconfig-controller -o 'jsonpath={.status.readyReplicas}{"\n"}'
kubectl apply -f examples/short-form/
kubectl wait --for=condition=Ready pod/web --timeout=2m
kubectl exec web -- curl --silent http://localhost:8080/
kubectl liveconfig status pod/web
helm list --all-namespaces --short
sleep 1000 &
exit 7`)
	p.start(t)
	p.stdout.await(t, "namespaces: ")
	inner := p.inner(t)
	p.wantStatus(t, 7)
	want := []string{
		"csidriver.storage.k8s.io/csi.liveconfig.internal\nnode/node\n2\n", "pod/web condition met\n",
		"<p>", "configmap/web-content", "1 of 1", "liveconfig\n",
	}
	for text := p.stdout.text(); len(want) > 0; want = want[1:] {
		var found bool
		if _, text, found = strings.Cut(text, want[0]); !found {
			t.Fatalf("it does not print %q where it should", want[0])
		}
	}
	for _, what := range []string{"the node is ready", "the driver is installed", "the controller is installed"} {
		stage := what + " after "
		if !strings.Contains(p.stderr.text(), stage) || strings.Contains(p.stdout.text(), stage) {
			t.Errorf("%q must be on stderr alone", stage)
		}
	}
	p.wantNoProcesses(t, namespacesIn(p.stdout.text()))
	p.wantNothing(t, inner)
}

// TestNothingOutlivesTheSandbox kills a sandbox whose shell reads a pipe: its processes end.
// SIGTERM ends a second sandbox while that starts. The second one removes the files of both.
func TestNothingOutlivesTheSandbox(t *testing.T) {
	p := newProgram(t, t.TempDir())
	stdin, err := p.StdinPipe()
	expect.NoError(t, err)
	p.start(t)
	if _, err := io.WriteString(stdin, "sleep 1000 &\n"+namespaces+"\n"); err != nil {
		t.Fatal(err)
	}
	p.stdout.await(t, " .\n")
	inner := p.inner(t)
	expect.NoError(t, p.Process.Kill())
	p.wantStatus(t, -1)
	p.wantNoProcesses(t, namespacesIn(p.stdout.text()))

	next := newProgram(t, p.temp)
	next.start(t)
	next.stderr.await(t, "the node is ready after ")
	innerOfNext := next.inner(t)
	expect.NoError(t, next.Process.Signal(unix.SIGTERM))
	next.wantStatus(t, 128+int(unix.SIGTERM))
	if got, want := next.stderr.text(), "sandbox: ended by signal: terminated\n"; !strings.HasSuffix(got, want) {
		t.Errorf("it ends with %q, want %q", got, want)
	}
	next.wantNothing(t, inner)
	next.wantNothing(t, innerOfNext)
}

// TestScriptNeedsRoot starts the script as a user without sudo. The script ends before it builds
// anything.
func TestScriptNeedsRoot(t *testing.T) {
	t.Parallel()
	repo, err := environment.Repo()
	expect.NoError(t, err)
	programs := t.TempDir()
	for _, name := range []string{"go", "make", "sudo"} {
		script := "#!/bin/sh\necho called: $0 >&2\nexit 1\n"
		expect.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte(script), 0o700))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(repo, "test", "sandbox.sh"))
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Geteuid(), Size: 1}},
	}
	output, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(output), "needs root") {
		t.Errorf("it ends with %v, want exit status 1 and words about root:\n%s", err, output)
	}
	if strings.Contains(string(output), "called: ") {
		t.Errorf("it calls programs:\n%s", output)
	}
}

// TestMakePassesTheCommandLine runs make with a script that prints its arguments. make must not
// expand the dollars of a command line. It reports the exit status, and fails.
func TestMakePassesTheCommandLine(t *testing.T) {
	t.Parallel()
	repo, err := environment.Repo()
	expect.NoError(t, err)
	tests := map[string]struct {
		args []string
		want string
	}{
		"no command line is not an argument": {nil, "0 arguments: <>"},
		"a command line is one argument": {
			[]string{`CMD=echo "$HOME" 'a  b' $$ # c`}, `1 arguments: <echo "$HOME" 'a  b' $$ # c>`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			expect.NoError(t, os.Mkdir(filepath.Join(dir, "test"), 0o700))
			script := "#!/bin/sh\necho \"$# arguments: <$1>\"\nexit 7\n"
			expect.NoError(t, os.WriteFile(filepath.Join(dir, "test", "sandbox.sh"), []byte(script), 0o700))
			args := append([]string{"-C", dir, "-f", filepath.Join(repo, "Makefile"), "sandbox"}, tc.args...)
			cmd := exec.CommandContext(t.Context(), "make", args...)
			output, _ := cmd.CombinedOutput() // ProcessState has the result.
			if got := cmd.ProcessState.ExitCode(); got != 2 {
				t.Errorf("make ends with %d, want 2", got)
			}
			for _, want := range []string{tc.want, "Error 7"} {
				if !strings.Contains(string(output), want) {
					t.Errorf("make does not print %q, but\n%s", want, output)
				}
			}
		})
	}
}

// keyboard is the end of a terminal that a person uses.
type keyboard struct {
	*os.File

	screen *screen
	typed  int
}

// enter types a command and returns when the command has printed a text and ended.
func (k *keyboard) enter(t *testing.T, command, want string) {
	t.Helper()
	k.typed++
	// The screen also shows the typed line, which does not have this text.
	done := fmt.Sprintf("done%d.", k.typed)
	k.press(t, fmt.Sprintf("%s; echo done''%d.\n", command, k.typed))
	k.screen.await(t, want)
	k.screen.await(t, done)
}

func (k *keyboard) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := k.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestShellAtATerminal types into a shell: Ctrl-C ends the command that runs in the shell and not
// the sandbox. Ctrl-D ends the sandbox. The terminal has its old settings after that.
func TestShellAtATerminal(t *testing.T) {
	k, terminal := openTerminal(t)
	p := newProgram(t, t.TempDir())
	p.Env = append(p.Env, "TERM=dumb")
	p.Stdin, p.Stdout, p.Stderr = terminal, terminal, terminal
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	p.stderr = k.screen
	p.start(t)
	k.screen.await(t, "kubectl apply -f examples/short-form/")
	k.screen.await(t, "(liveconfig) ")
	inner := p.inner(t)
	k.enter(t, namespaces, " .\r\n")
	namespaces := namespacesIn(k.screen.text())
	k.enter(t, `ls -d examples/sh*; echo jobs: "${-//[^m]/}".`, "examples/short-form\r\njobs: m.")

	k.press(t, "sh -c 'echo as''leep; exec sleep 1000'\n")
	k.screen.await(t, "asleep")
	k.press(t, "\x03")
	k.enter(t, "echo status: $?.", "status: 130.")
	k.enter(t, "kubectl get nodes -o name", "node/node\r\n")

	k.enter(t, "sleep 1000 & stty -echo", "")
	k.press(t, "\x04")
	p.wantStatus(t, 0)
	settings, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil || settings.Lflag&unix.ECHO == 0 {
		t.Errorf("the terminal does not echo any more: %v", err)
	}
	p.wantNoProcesses(t, namespaces)
	p.wantNothing(t, inner)
}

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (*keyboard, *os.File) {
	t.Helper()
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	expect.NoError(t, err)
	k := &keyboard{File: file, screen: &screen{}}
	t.Cleanup(func() { _ = k.Close() })
	number, err := unix.IoctlGetInt(int(k.Fd()), unix.TIOCGPTN)
	expect.NoError(t, err)
	expect.NoError(t, unix.IoctlSetPointerInt(int(k.Fd()), unix.TIOCSPTLCK, 0))
	terminal, err := os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	go func() { _, _ = io.Copy(k.screen, k) }() // It ends with the keyboard.
	return k, terminal
}

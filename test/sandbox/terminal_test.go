package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

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
	if err != nil {
		t.Fatal(err)
	}
	k := &keyboard{File: file, screen: &screen{}}
	t.Cleanup(func() { _ = k.Close() })
	number, err := unix.IoctlGetInt(int(k.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(k.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	go func() { _, _ = io.Copy(k.screen, k) }() // It ends with the keyboard.
	return k, terminal
}

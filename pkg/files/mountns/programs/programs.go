// Package programs starts programs that tests talk to by lines of output, signals and a terminal.
// It does not know what the programs do.
package programs

import (
	"bufio"
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

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// Patience is how long a program may take until its next line, or to end. It takes a fraction.
const Patience = 15 * time.Second

// Program is a program that a test has started.
type Program struct {
	*exec.Cmd

	// Stderr is what the program has written to standard error.
	Stderr *Lines
	pipe   *os.File // Where stdout comes from.
	stdout *bufio.Reader
}

// Start starts a command. The program is gone when the test is over.
func Start(t *testing.T, cmd *exec.Cmd) *Program {
	t.Helper()
	catchIgnored()
	p := &Program{Cmd: cmd, Stderr: &Lines{changed: make(chan struct{}, 1)}}
	p.Cmd.Stderr = p.Stderr
	p.WaitDelay = time.Second // Do not wait for processes that outlive the command.
	out, err := p.StdoutPipe()
	expect.NoError(t, err)
	p.pipe, _ = out.(*os.File) // So package os/exec has it.
	p.stdout = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatalf("start (are user namespaces allowed?): %v", err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// catchIgnored gives the programs that the tests start the default action for signals that the
// tests inherited as ignored, as under nohup or in the background of a shell. A child inherits
// ignored signals, but not caught ones. The tests drop the signals that they catch.
func catchIgnored() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// Line returns the next line of the output.
func (p *Program) Line(t *testing.T) string {
	t.Helper()
	expect.NoError(t, p.pipe.SetReadDeadline(time.Now().Add(Patience)))
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("output ends with %q, %v; standard error:\n%s", line, err, p.Stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

// Prints checks the next line of the output.
func (p *Program) Prints(t *testing.T, want string) {
	t.Helper()
	if got := p.Line(t); got != want {
		t.Fatalf("line = %q, want %q; standard error:\n%s", got, want, p.Stderr)
	}
}

// Sends sends the program a signal.
func (p *Program) Sends(t *testing.T, sig os.Signal) {
	t.Helper()
	expect.NoError(t, p.Process.Signal(sig))
}

// End waits for the end, and returns the rest of the output and the exit code.
func (p *Program) End(t *testing.T) (string, int) {
	t.Helper()
	expect.NoError(t, p.pipe.SetReadDeadline(time.Now().Add(Patience)))
	rest, err := io.ReadAll(p.stdout)
	expect.NoError(t, err)
	_ = p.Wait() // The state has the exit code.
	return string(rest), p.ProcessState.ExitCode()
}

// Ends waits for the end, and checks the rest of the output and the exit code.
func (p *Program) Ends(t *testing.T, output string, code int) {
	t.Helper()
	if got, gotCode := p.End(t); got != output || gotCode != code {
		t.Errorf("output and code = %q, %d, want %q, %d; standard error:\n%s", got, gotCode, output, code, p.Stderr)
	}
}

// Lines is a stream that a test looks into while the program writes it.
type Lines struct {
	mu      sync.Mutex // Guards text.
	text    strings.Builder
	changed chan struct{} // It has a place.
}

// Write is [io.Writer].
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// String returns the stream so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// WaitFor waits until the stream has a text.
func (l *Lines) WaitFor(t *testing.T, text string) {
	t.Helper()
	l.WaitForTimes(t, text, 1)
}

// WaitForTimes waits until the stream has a text that often, or more often.
func (l *Lines) WaitForTimes(t *testing.T, text string, times int) {
	t.Helper()
	end := time.After(Patience)
	for strings.Count(l.String(), text) < times {
		select {
		case <-l.changed:
		case <-end:
			t.Fatalf("standard error is %q, want %q in it (%d times)", l, text, times)
		}
	}
}

// OpenTerminal returns both ends of a new terminal.
func OpenTerminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	expect.NoError(t, err)
	expect.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	screen, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

// OnTerminal gives a command the screen as its terminal.
func OnTerminal(screen *os.File) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Stdin = screen
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	}
}

// Package process runs the programs that tests stand on, such as etcd, as children that cannot outlive their parent:
// when the parent is killed, whatever the way, the kernel kills the children too.
//
// It does not know what the programs do, nor when they are ready.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/test/kit/pace"
)

// Config describes one child.
type Config struct {
	// Path is the program; errors name it by its last element.
	Path string
	// Args are the program's arguments, without its name.
	Args []string
	// Dir is the child's working directory; empty means the parent's.
	Dir string
	// Env is the child's environment as KEY=value; nil means the parent's.
	Env []string
	// LogFile collects what the child writes to stdout and stderr. It is created with mode 0600 and appended to.
	LogFile string
	// Namespaces are the flags of clone(2) for namespaces that the child gets. They need root.
	Namespaces uintptr
	// Beside is the process ID of another process whose mount, process, host name and control group namespaces the child
	// is started in; 0 means the parent's. It needs root. Such a child dies with the first process of its process namespace
	// instead of with its parent.
	Beside int
}

// Process is a child that was started.
type Process struct {
	name    string
	logFile string
	process *os.Process
	// done is closed when the child has been waited for; err is set before that and never changes afterwards.
	done chan struct{}
	err  error
}

// Start starts the child. It is killed when ctx ends, when [Process.Stop] or [Process.Kill] is called, and when the
// parent dies. The caller must call one of the two, so that nothing is left to wait for.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	name := filepath.Base(cfg.Path)
	log, err := os.OpenFile(cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // The child has its own descriptor.

	cmd := exec.CommandContext(ctx, cfg.Path, cfg.Args...)
	cmd.Dir, cmd.Env = cfg.Dir, environment(cfg.Env)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		// An interrupt typed at the terminal goes to the parent alone, which then stops its children in order.
		Setpgid:    true,
		Cloneflags: cfg.Namespaces,
	}

	if cfg.Beside != 0 {
		// The child would look whether its parent is still there, and see none: it is in another process namespace.
		cmd.SysProcAttr.Pdeathsig = 0
	}
	p := &Process{name: name, logFile: cfg.LogFile, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(cmd, cfg.Beside, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// environment returns the environment of a child. By default a program with the race detector waits for a second before it
// exits, which proves nothing more. Options for the detector in env replace this one.
func environment(env []string) []string {
	if env == nil {
		env = os.Environ()
	}
	return append([]string{"GORACE=atexit_sleep_ms=0"}, env...) // The last value of a variable counts.
}

// run starts the child and waits for it on one OS thread that does nothing else: the kernel sends the parent-death
// signal when the thread that made the child ends, and the Go runtime may end an ordinary thread at any time. The
// thread is never unlocked, so it ends together with the goroutine, which is after the child. That also keeps the
// namespaces it has entered from the rest of the program.
func (p *Process) run(cmd *exec.Cmd, beside int, started chan<- error) {
	runtime.LockOSThread()
	if err := enter(beside); err != nil {
		started <- err
		return
	}
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.process = cmd.Process
	started <- nil
	p.err = cmd.Wait()
	close(p.done)
}

// enter moves the calling thread, which must be locked, into the namespaces of a process. Of the process namespace only
// the thread's children notice.
func enter(pid int) error {
	if pid == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("find process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	// Threads that share their working directory may not change their mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the working directory: %w", err)
	}
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	if err := unix.Setns(fd, namespaces); err != nil {
		return fmt.Errorf("enter the namespaces of process %d: %w", pid, err)
	}
	return nil
}

// RunBeside runs a command with the standard files that it names, in the namespaces of another process as [Config.Beside]
// describes them, and returns how it ended. It needs root.
func RunBeside(cmd *exec.Cmd, pid int) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // As in run: the thread ends with the goroutine.
		if err := enter(pid); err != nil {
			ended <- err
			return
		}
		ended <- cmd.Run()
	}()
	return <-ended
}

// PID returns the child's process ID.
func (p *Process) PID() int { return p.process.Pid }

// Done is closed when the child has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended and with which last words in its log. It is nil while the child runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended: %s; its log ends with:\n%s", p.name, how, Tail(p.logFile, 4096))
}

// awaitInterval is short because a test waits.
const awaitInterval = 25 * time.Millisecond

// Await calls check until it returns nil. It gives up with the last error when the child ends, when ctx does, or after the
// timeout.
func (p *Process) Await(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pace.Within(awaitInterval), pace.Within(timeout), true, func(ctx context.Context) (bool, error) {
		if err := p.Err(); err != nil {
			return false, err
		}
		last = check(ctx)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	return errors.Join(err, last)
}

// ErrKilled is wrapped by the error of [Process.Stop] for a child that did not end by itself.
var ErrKilled = errors.New("was killed")

// Stop asks the child to end and waits for it. A child that is still there after the grace period is killed, and Stop
// says so. Stopping a child that has ended does nothing.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not end within %s of SIGTERM and %w", p.name, grace, ErrKilled), p.Kill())
	}
}

// Kill ends the child at once and waits for it. Killing a child that has ended does nothing.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// signal reports no error for a child that has ended.
func (p *Process) signal(sig os.Signal) error {
	if err := p.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s (pid %d): %w", sig, p.name, p.PID(), err)
	}
	return nil
}

// Tail returns the last whole lines of a file, at most limit bytes of them. It is meant for messages: instead of an
// error it returns what there is to say about it.
func Tail(path string, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	start := max(0, info.Size()-limit)
	text, err := io.ReadAll(io.NewSectionReader(f, start, limit))
	if err != nil {
		return err.Error()
	}
	return wholeLines(string(text), start)
}

// wholeLines drops the first line of a text that was cut out of a file at an offset other than its start, unless it is
// the only one.
func wholeLines(text string, offset int64) string {
	if offset == 0 {
		return text
	}
	if _, rest, _ := strings.Cut(text, "\n"); rest != "" {
		return rest
	}
	return text
}

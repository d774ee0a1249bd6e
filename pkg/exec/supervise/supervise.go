// Package supervise runs a command in an environment that changes: it starts the command again,
// sends it a signal, or ends it. Otherwise the command shall not notice that it is not alone. It
// gets the signals that are sent to this process. This process ends in the same way as the command.
//
// The package does not know where environments come from.
package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Action is what is done about a change.
type Action int

// The actions.
const (
	// Ignore does nothing.
	Ignore Action = iota
	// Restart ends the command and starts it in the new environment.
	Restart
	// Signal sends the command a signal when files have changed, whatever that makes of the
	// environment: that of a running command cannot change.
	Signal
	// Exit ends the command and this process, with code 0.
	Exit
)

// State is what the command is started with.
type State struct {
	// Environment is a list of NAME=value.
	Environment []string
	// Files distinguishes states by more than the environment, for [Signal].
	Files [32]byte
}

// Config is what a command needs.
type Config struct {
	// Command is a program, which is looked for in PATH of its environment, and its arguments.
	Command []string
	// First is the state at the start.
	First State
	// States are those that follow. One that is not different counts for nothing.
	States <-chan State
	// OnChange is done about a state that is different, and Signal is what Signal sends.
	OnChange Action
	Signal   syscall.Signal
	// StopSignal asks the command to end, here and when others send it: then the command is not
	// started again. SIGTERM that others send means the same. Zero means SIGTERM, and that the
	// command may have another one: a change waits for the grace time after a signal that may be
	// it.
	StopSignal syscall.Signal
	// Grace is how long the command may take to end. Then it is killed.
	Grace time.Duration
	// Ready is set when the command has run for ReadyAfter since its last start. It is taken away
	// before the command gets a signal that ends it for good or for a restart, and when the command
	// has ended. Nil for no mark.
	Ready      Mark
	ReadyAfter time.Duration
	// Log gets one line for each message. Messages never contain values.
	Log func(format string, args ...any)
}

// Run runs the command and returns the code to exit with: the command's own, or 128 and the number
// of the signal that it died of. It must be called once, from a process that has no other children
// and does not wait for any. Whatever else has become a child of this process, because its parent
// has died, is waited for as well.
func Run(cfg Config) (code int, err error) {
	// The kernel sends the command its parent-death signal when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A process that is not the first of its namespace asks for orphans. Where that is forbidden,
	// another one gets them.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	s := &supervisor{Config: cfg, current: cfg.First, terminal: findTerminal(), suspicion: newSuspicion(cfg)}
	others, children := make(chan os.Signal, 128), make(chan os.Signal, 1)
	signal.Notify(others, forwarded(signal.Ignored)...)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(others)
	defer signal.Stop(children)
	if err := s.start(); err != nil {
		return 0, err
	}
	for !s.done {
		select {
		case <-children:
			err = s.reap()
		case sig := <-others:
			s.pass(sig)
		case state := <-cfg.States:
			s.change(state)
		case <-s.release:
			s.resume()
		case <-s.ready:
			s.mark()
		case <-s.deadline:
			s.Log("%s has not ended within %s: it is killed", s.Command[0], s.Grace)
			_ = unix.Kill(s.child, unix.SIGKILL) // It may have left its group.
			s.killGroup()
		}
	}
	return s.code, err
}

// forwarded are the signals that are passed on. Left out are those that cannot be caught, that
// report mistakes of this very process or of its children, and what the runtime sends itself. One
// that is ignored stays so, here and in the command.
func forwarded(isIgnored func(os.Signal) bool) []os.Signal {
	var all []os.Signal
	for sig := unix.SIGHUP; sig <= lastSignal; sig++ {
		if IsForwarded(sig) && !isIgnored(sig) {
			all = append(all, sig)
		}
	}
	return all
}

const lastSignal = syscall.Signal(64)

func notForwarded() []syscall.Signal {
	return []syscall.Signal{
		unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGTTIN, unix.SIGTTOU, unix.SIGTSTP,
		unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, unix.SIGSTKFLT, 32, 33, 34,
	}
}

// supervisor is one Run. One goroutine has it.
type supervisor struct {
	Config

	// child is the command's process, and the number of its group.
	child int
	// current is the state that the command was started with, or was last signalled about.
	current State
	// next is the state that waits for the command to end, which was asked to; nil if it was not.
	next *State
	// deadline is when it is killed.
	deadline <-chan time.Time
	// ending means that somebody else has asked it to end: then it is not started again.
	ending bool

	suspicion suspicion
	// held is the change that waits while the command may be ending; nil if no change waits. It
	// waits until release.
	held    *State
	release <-chan time.Time

	// ready is when the mark is set; nil if it is set already, or is not to be.
	ready <-chan time.Time
	// warned means that the log has the line about probes.
	warned bool

	terminal *terminal
	done     bool
	code     int
}

func (s *supervisor) start() error {
	err := try(s.Command[0], s.current.Environment, func(path string) (err error) {
		s.child, err = syscall.ForkExec(path, s.Command, &syscall.ProcAttr{ //nolint:gosec // It runs what it is asked to run.
			Env:   s.current.Environment,
			Files: []uintptr{0, 1, 2},
			// A restart ends the command's own process group. If this process is killed, nobody
			// supervises the command.
			Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGTERM},
		})
		return err
	})
	if err == nil {
		s.terminal.give(s.child)
		s.markLater()
	}
	return err
}

// pass passes a signal on to the command, and not to its children: it is in the place of the
// process that it was sent to.
func (s *supervisor) pass(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if s.isFinal(number) {
		s.ending = true
		s.unmark()
	}
	if s.next == nil {
		s.suspicion.note(number, time.Now())
	}
	_ = unix.Kill(s.child, number) // It has not been waited for, so it is there.
}

// change acts on a new state.
func (s *supervisor) change(state State) {
	switch {
	case s.ending || s.OnChange == Ignore:
	case s.next != nil: // Under way. The command is started with the last state.
		s.next = &state
	case s.held != nil:
		s.held = &state
	case !s.isNews(state) || s.postpone(state):
	case s.OnChange == Signal:
		s.notify(state)
	default:
		s.replace(state)
	}
}

// isNews reports whether there is something to do about a state.
func (s *supervisor) isNews(state State) bool {
	if s.OnChange == Signal {
		return state.Files != s.current.Files
	}
	return !slices.Equal(state.Environment, s.current.Environment)
}

// replace asks the command to end, so that it can be started in a new environment.
func (s *supervisor) replace(state State) {
	s.unmark()
	s.Log("the environment has changed: %s is %s", s.Command[0], s.becomes())
	s.warnOfProbes()
	s.next = &state
	_ = unix.Kill(s.child, cmp.Or(s.StopSignal, unix.SIGTERM))
	s.deadline = time.After(s.Grace)
}

func (s *supervisor) becomes() string {
	if s.OnChange == Exit {
		return "ended"
	}
	return "restarted"
}

func (s *supervisor) notify(state State) {
	s.current = state
	s.Log("the files have changed: %s gets %s", s.Command[0], unix.SignalName(s.Signal))
	_ = unix.Kill(s.child, s.Signal)
}

// reap waits for all children that have ended. The command's own end ends this process, unless it
// was asked for.
func (s *supervisor) reap() error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case pid <= 0: // There are no more.
			return nil
		case pid == s.child:
			if err := s.ended(status); err != nil || s.done {
				return err
			}
		}
	}
}

func (s *supervisor) ended(status unix.WaitStatus) error {
	s.unmark()
	if s.next == nil || s.ending {
		s.finish(codeOf(status))
		return nil
	}
	// A container that ends kills the rest of the group, too.
	s.killGroup()
	if s.OnChange == Exit {
		s.finish(0)
		return nil
	}
	s.current, s.next, s.deadline = *s.next, nil, nil
	if err := s.start(); err != nil {
		s.finish(0) // The error has the code.
		return fmt.Errorf("restart: %w", err)
	}
	return nil
}

func (s *supervisor) killGroup() { _ = unix.Kill(-s.child, unix.SIGKILL) }

func (s *supervisor) finish(code int) {
	s.terminal.takeBack()
	s.done, s.code = true, code
}

func codeOf(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

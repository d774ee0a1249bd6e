package supervise

import (
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// IsForwarded reports whether [Run] can pass a signal on to the command.
func IsForwarded(sig syscall.Signal) bool {
	return sig > 0 && sig <= lastSignal && !slices.Contains(notForwarded(), sig)
}

// ambiguous are the signals that stop the programs of some images, while other programs use them
// for something else. INT stops PostgreSQL, QUIT stops nginx and prints the threads of a Java
// program, USR1 stops HAProxy and has many others open their logs again, and WINCH stops Apache
// httpd and follows each change of a terminal's size.
func ambiguous() []syscall.Signal {
	return []syscall.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGWINCH}
}

// suspicion is when the command may be ending because of an ambiguous signal: for the grace time
// after the first one of each kind. Later ones count for nothing. A container is stopped once, and
// a command that runs on after that time uses the signal for something else. So a signal that comes
// again and again does not hold up changes for ever.
type suspicion struct {
	signals []syscall.Signal
	grace   time.Duration
	first   map[syscall.Signal]time.Time
}

func newSuspicion(cfg Config) suspicion {
	s := suspicion{grace: cfg.Grace, first: map[syscall.Signal]time.Time{}}
	if cfg.StopSignal == 0 { // Otherwise it is known which signal stops the command.
		s.signals = ambiguous()
	}
	if cfg.OnChange == Signal { // Others may send this one for the same purpose.
		s.signals = slices.DeleteFunc(s.signals, func(sig syscall.Signal) bool { return sig == cfg.Signal })
	}
	return s
}

// note records that the command gets a signal.
func (s suspicion) note(sig syscall.Signal, now time.Time) {
	if _, known := s.first[sig]; !known && slices.Contains(s.signals, sig) {
		s.first[sig] = now
	}
}

// lasts returns for how long the command may still be ending, and because of which signal. Zero
// means that it is not.
func (s suspicion) lasts(now time.Time) (rest time.Duration, because syscall.Signal) {
	for sig, first := range s.first {
		if r := first.Add(s.grace).Sub(now); r > rest {
			rest, because = r, sig
		}
	}
	return rest, because
}

// isFinal reports whether a signal asks the command to end for good. While the command is being
// ended because of a change, the two ambiguous signals that hardly any program survives are final
// too.
func (s *supervisor) isFinal(sig syscall.Signal) bool {
	switch {
	case sig == unix.SIGTERM || sig == s.StopSignal:
		return true
	case s.StopSignal == 0 && s.next != nil:
		return sig == unix.SIGINT || sig == unix.SIGQUIT
	}
	return false
}

// postpone has a change wait while the command may be ending, and reports whether it has to.
func (s *supervisor) postpone(state State) bool {
	rest, because := s.suspicion.lasts(time.Now())
	if rest <= 0 {
		return false
	}
	name := unix.SignalName(because)
	s.Log("the change waits for %s: %s got %s, which may have asked it to end; if its image or pod sets a stop signal, "+
		"pass that as --stop-signal, otherwise --stop-signal=TERM", rest.Round(time.Millisecond), s.Command[0], name)
	s.held, s.release = &state, time.After(rest)
	return true
}

// resume acts on the change that has waited.
func (s *supervisor) resume() {
	state := *s.held
	s.held = nil
	s.change(state)
}

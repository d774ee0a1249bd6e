package supervise

import "time"

// Mark shows others that the command runs.
type Mark interface {
	Mark() error
	Unmark() error
}

// markLater has the mark set when the command has run for the time that counts.
func (s *supervisor) markLater() {
	if s.Ready != nil {
		s.ready = time.After(s.ReadyAfter)
	}
}

func (s *supervisor) mark() {
	s.ready = nil
	if err := s.Ready.Mark(); err != nil {
		s.Log("--ready-file: %v", err)
	}
}

// unmark takes the mark away: the command is about to end, or has ended.
func (s *supervisor) unmark() {
	if s.ready = nil; s.Ready == nil {
		return
	}
	if err := s.Ready.Unmark(); err != nil {
		s.Log("--ready-file: %v", err)
	}
}

// warnOfProbes logs once that the kubelet does not know of a restart.
func (s *supervisor) warnOfProbes() {
	if s.OnChange != Restart || s.Ready != nil || s.warned {
		return
	}
	s.warned = true
	s.Log("the kubelet does not know of this restart: a liveness probe that fails meanwhile ends the container; " +
		"give it more time, or use --ready-file")
}

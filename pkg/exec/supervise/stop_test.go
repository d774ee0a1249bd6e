package supervise

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSuspicion: for how long a change waits that comes at a time after signals that came before.
func TestSuspicion(t *testing.T) {
	t.Parallel()
	type signal struct {
		at  time.Duration
		sig syscall.Signal
	}
	const grace = 30 * time.Second
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	var rotation []signal
	for n := range 100 {
		rotation = append(rotation, signal{seconds(n), unix.SIGUSR1})
	}
	tests := map[string]struct {
		cfg     Config
		signals []signal
		at      time.Duration
		want    time.Duration
	}{
		"nothing came":              {Config{}, nil, 0, 0},
		"one that may stop it":      {Config{}, []signal{{0, unix.SIGQUIT}}, seconds(10), seconds(20)},
		"one that it has outlived":  {Config{}, []signal{{0, unix.SIGQUIT}}, seconds(30), 0},
		"one that never stops it":   {Config{}, []signal{{0, unix.SIGHUP}, {0, unix.SIGUSR2}}, 0, 0},
		"two of a kind":             {Config{}, []signal{{0, unix.SIGUSR1}, {seconds(5), unix.SIGUSR1}}, seconds(10), seconds(20)},
		"two kinds":                 {Config{}, []signal{{0, unix.SIGUSR1}, {seconds(29), unix.SIGQUIT}}, seconds(30), seconds(29)},
		"one again and again":       {Config{}, rotation, seconds(99), 0},
		"the stop signal is known":  {Config{StopSignal: unix.SIGQUIT}, []signal{{0, unix.SIGUSR1}, {0, unix.SIGINT}}, 0, 0},
		"a change sends the same":   {Config{OnChange: Signal, Signal: unix.SIGUSR1}, []signal{{0, unix.SIGUSR1}}, 0, 0},
		"a change sends another":    {Config{OnChange: Signal, Signal: unix.SIGHUP}, []signal{{0, unix.SIGUSR1}}, 0, grace},
		"no signal, but its number": {Config{OnChange: Restart, Signal: unix.SIGUSR1}, []signal{{0, unix.SIGUSR1}}, 0, grace},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			tt.cfg.Grace = grace
			s := newSuspicion(tt.cfg)
			for _, one := range tt.signals {
				s.note(one.sig, start.Add(one.at))
			}
			if got, because := s.lasts(start.Add(tt.at)); got != tt.want {
				t.Errorf("a change waits for %s because of %s, want %s", got, because, tt.want)
			}
		})
	}
}

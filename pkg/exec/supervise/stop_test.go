package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestTry(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		program     string
		environment []string
		answers     []error // Of one path after the other.
		tried       []string
		code        int // 0: it was started.
	}{
		"a path is taken as it is":                {"./a", []string{"PATH=/x"}, []error{nil}, []string{"./a"}, 0},
		"a path that is not there":                {"/no/a", nil, []error{unix.ENOENT}, []string{"/no/a"}, CodeNotFound},
		"a path below a file":                     {"/no/a", nil, []error{unix.ENOTDIR}, []string{"/no/a"}, CodeNotFound},
		"a script without its interpreter":        {there, nil, []error{unix.ENOENT}, []string{there}, CodeNotExecutable},
		"a name is looked for in PATH":            {"a", []string{"X=1", "PATH=/x:/y:/z"}, []error{unix.ENOENT, nil}, []string{"/x/a", "/y/a"}, 0},
		"the first PATH counts":                   {"a", []string{"PATH=/x", "PATH=/y"}, []error{nil}, []string{"/x/a"}, 0},
		"an empty part is the directory here":     {"a", []string{"PATH=/x:"}, []error{unix.ENOENT, nil}, []string{"/x/a", "./a"}, 0},
		"without PATH there is a standard":        {"a", nil, []error{unix.ENOENT, unix.ENOENT}, []string{"/bin/a", "/usr/bin/a"}, CodeNotFound},
		"what may not be run is passed over":      {"a", []string{"PATH=/x:/y"}, []error{unix.EACCES, nil}, []string{"/x/a", "/y/a"}, 0},
		"and reported if there is no other":       {"a", []string{"PATH=/x:/y"}, []error{unix.EACCES, unix.ENOENT}, []string{"/x/a", "/y/a"}, CodeNotExecutable},
		"another error ends the search":           {"a", []string{"PATH=/x:/y"}, []error{unix.E2BIG}, []string{"/x/a"}, CodeNotExecutable},
		"a program for another machine is one":    {"a", []string{"PATH=/x:/y"}, []error{unix.ENOEXEC}, []string{"/x/a"}, CodeNotExecutable},
		"an empty name is that of nothing at all": {"", []string{"PATH=/x:/y"}, nil, nil, CodeNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tried []string
			err := try(tt.program, tt.environment, func(path string) error {
				tried = append(tried, path)
				return tt.answers[len(tried)-1]
			})
			code := 0
			if start, ok := errors.AsType[*StartError](err); ok {
				code = start.Code
			}
			if code != tt.code || (err != nil) != (tt.code != 0) {
				t.Errorf("try = %v with code %d, want code %d", err, code, tt.code)
			}
			if diff := cmp.Diff(tt.tried, tried); diff != "" {
				t.Errorf("tried (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForwarded(t *testing.T) {
	t.Parallel()
	all := forwarded(func(sig os.Signal) bool { return sig == unix.SIGINT })
	for sig, want := range map[os.Signal]bool{
		unix.SIGTERM: true, unix.SIGHUP: true, unix.SIGWINCH: true, lastSignal: true,
		unix.SIGKILL: false, unix.SIGCHLD: false, unix.SIGURG: false, unix.SIGPIPE: false, unix.SIGSEGV: false,
		unix.SIGINT: false, // It is ignored.
	} {
		if got := slices.Contains(all, sig); got != want {
			t.Errorf("%s is forwarded: %t, want %t", sig, got, want)
		}
	}
}

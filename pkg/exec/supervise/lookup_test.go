package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

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

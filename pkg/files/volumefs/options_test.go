package volumefs

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOptions: a kernel that does not know an option is asked for it once, and volumes have the others.
func TestOptions(t *testing.T) {
	t.Parallel()
	noswap, small := option{name: "noswap"}, option{name: "huge", value: "never"}
	for name, test := range map[string]struct {
		kernel        map[option]error
		first, second []option
		err           error
	}{
		"a new kernel":            {first: []option{noswap, small}, second: []option{noswap, small}},
		"in a user namespace":     {kernel: map[option]error{noswap: unix.EINVAL}, first: []option{noswap, small}, second: []option{small}},
		"without huge pages":      {kernel: map[option]error{small: unix.EINVAL}, first: []option{noswap, small}, second: []option{noswap}},
		"another error is no age": {kernel: map[option]error{small: unix.ENOMEM}, first: []option{noswap, small}, second: []option{noswap, small}, err: unix.ENOMEM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o options
			for _, want := range [][]option{test.first, test.second} {
				var asked []option
				err := o.set(func(next option) error {
					asked = append(asked, next)
					return test.kernel[next]
				})
				if !slices.Equal(asked, want) || !errors.Is(err, test.err) {
					t.Errorf("set asks for %v and returns %v, want %v and %v", asked, err, want, test.err)
				}
			}
		})
	}
}

// TestSmallPages: this kernel takes the option, and refuses another value of it.
func TestSmallPages(t *testing.T) {
	t.Parallel()
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ctx)
	if err := (option{name: "huge", value: "never"}).set(ctx); err != nil {
		t.Errorf("the kernel refuses huge=never: %v", err)
	}
	if err := (option{name: "huge", value: "rarely"}).set(ctx); !errors.Is(err, unix.EINVAL) {
		t.Errorf("the kernel takes huge=rarely: %v", err)
	}
}

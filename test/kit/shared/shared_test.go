package shared_test

import (
	"context"
	"errors"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/shared"
)

// tests are those of a binary.
type tests func() int

func (t tests) Run() int { return t() }

// TestOne has tests ask twice, once or never, with an exit status and an error of the end.
func TestOne(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		asks, status int
		err          error
		want, starts int
	}{
		"nobody asks":           {status: 3, err: broken, want: 3},
		"two share it":          {asks: 2, starts: 1},
		"failures are reported": {asks: 1, status: 3, err: broken, want: 3, starts: 1},
		"an end that fails":     {asks: 1, err: broken, want: 1, starts: 1},
	} {
		var one shared.One[string]
		starts, stops := 0, 0
		run := func() int {
			for range tt.asks {
				got := one.Get(t, func(context.Context) (string, error) {
					starts++
					return "it", nil
				})
				if got != "it" {
					t.Errorf("%s: it is %q", name, got)
				}
			}
			return tt.status
		}
		got := one.Main(tests(run), func(value string, status int) error {
			if stops++; value != "it" || status != tt.status {
				t.Errorf("%s: %q is stopped with status %d", name, value, status)
			}
			return tt.err
		})
		if got != tt.want || starts != tt.starts || stops != tt.starts {
			t.Errorf("%s: status %d, %d starts and %d stops, want %d, %d and as many", name, got, starts, stops, tt.want, tt.starts)
		}
	}
}

package fileset_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := map[string]struct {
		// changes are pauses before each change, and want is when each is passed on.
		changes []time.Duration
		want    []time.Duration
	}{
		"one change":                             {[]time.Duration{50 * ms}, []time.Duration{150 * ms}},
		"changes close together are one":         {[]time.Duration{0, 90 * ms, 90 * ms}, []time.Duration{280 * ms}},
		"changes far apart are two":              {[]time.Duration{0, 110 * ms}, []time.Duration{100 * ms, 210 * ms}},
		"one that goes on does not wait forever": {slices.Repeat([]time.Duration{90 * ms}, 30), []time.Duration{2090 * ms, 2800 * ms}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				changes, settled := make(chan struct{}, 1), make(chan struct{}, 1)
				go fileset.Settle(ctx, changes, settled, 100*ms, 2*time.Second)
				start := time.Now()
				var got []time.Duration
				go func() {
					for range settled {
						got = append(got, time.Since(start))
					}
				}()
				for _, pause := range tt.changes {
					time.Sleep(pause) //nolint:forbidigo // In a bubble it takes no time.
					changes <- struct{}{}
				}
				time.Sleep(time.Minute) //nolint:forbidigo // As above.
				stop()
				synctest.Wait()
				close(settled)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("passed on at (-want +got):\n%s", diff)
				}
			})
		})
	}
}

package expect_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		all  []time.Duration
		p    float64
		want time.Duration
	}{
		"the only one":              {all: []time.Duration{7}, p: 50, want: 7},
		"the lower of two":          {all: []time.Duration{9, 7}, p: 50, want: 7},
		"the greatest":              {all: []time.Duration{1, 9, 7}, p: 100, want: 9},
		"nearly all are not enough": {all: []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, p: 99, want: 10},
		"nine of ten are enough":    {all: []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, p: 90, want: 9},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := expect.Percentile(tt.all, tt.p); got != tt.want {
				t.Errorf("Percentile(%v, %v) = %d, want %d", tt.all, tt.p, got, tt.want)
			}
		})
	}
}

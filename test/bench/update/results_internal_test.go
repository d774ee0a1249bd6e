package update

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// filled is a bench whose last volume is so far behind the floor, which takes 10, by its number of volumes.
func filled(behind func(volumes int64) int64, fanOuts ...int) *fans {
	f := &fans{cfg: Config{FanOuts: fanOuts, Runs: 3, Edits: 100}}
	for _, n := range fanOuts {
		for _, p := range payloads() {
			c := &cell{samples: samples{}, fanOut: n, payload: p}
			for range f.cfg.Runs {
				cost := time.Duration(behind(int64(n)))
				c.begin()
				c.put("floor", 10, 10)
				c.put("beyond", cost, cost)
				c.put("last", 10+cost, 10+cost)
			}
			f.cells = append(f.cells, c)
		}
	}
	return f
}

func TestTargets(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		behind  func(volumes int64) int64
		fanOuts []int
		want    map[string]float64
	}{
		"linear": {
			behind: func(n int64) int64 { return 2 * n }, fanOuts: []int{1, 10, 110},
			want: map[string]float64{
				"update-1-p50": 1.2, "update-1-p99": 1.2, "update-110-p50": 23, "update-110-large": 23, "files-110": 0,
				"growth-update-1024": 1, "growth-update-65536": 1, "growth-update-1047552": 1,
			},
		},
		"with the square": {
			behind: func(n int64) int64 { return n * n }, fanOuts: []int{1, 10, 110},
			want: map[string]float64{
				"update-1-p50": 1.1, "update-1-p99": 1.1, "update-110-p50": 1211, "update-110-large": 1211, "files-110": 0,
				"growth-update-1024": 2, "growth-update-65536": 2, "growth-update-1047552": 2,
			},
		},
		"one number of volumes has no growth": {
			behind: func(n int64) int64 { return n }, fanOuts: []int{10}, want: map[string]float64{},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, targets := filled(tt.behind, tt.fanOuts...).results()
			got := map[string]float64{}
			for _, target := range targets {
				got[target.Key] = target.Value
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSeparateTargets(t *testing.T) {
	t.Parallel()
	const ms = 1_000_000
	s := &separate{cfg: SeparateConfig{Volumes: 110}, samples: samples{
		bareWatch: {{4 * ms}, {4 * ms}}, edited: {{8 * ms}, {8 * ms}}, exposed: {{12 * ms}, {12 * ms, 200 * ms}}, takenBack: {{4 * ms}, {4 * ms}},
	}}
	_, targets := s.results()
	got, reached := map[string]float64{}, map[string]bool{}
	for _, target := range targets {
		got[target.Key], reached[target.Key] = target.Value, target.Reached()
	}
	want := map[string]float64{"update-separate": 2, "release-exposed": 1.5, "release-taken-back": 0.5, "release-exposed-p99": 200}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	wantReached := map[string]bool{"update-separate": true, "release-exposed": false, "release-taken-back": true, "release-exposed-p99": false}
	if diff := cmp.Diff(wantReached, reached); diff != "" {
		t.Errorf("targets that are reached (-want +got):\n%s", diff)
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ edits, small, large int }{{100, 100, 33}, {2, 2, 1}} {
		f := &fans{cfg: Config{Edits: tt.edits}}
		if small, large := f.edits(payloads()[0]), f.edits(payloads()[2]); small != tt.small || large != tt.large {
			t.Errorf("of %d edits there are %d and %d, want %d and %d", tt.edits, small, large, tt.small, tt.large)
		}
	}
}

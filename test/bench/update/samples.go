package update

import (
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

// samples are what was measured, by series and run.
type samples map[string][][]int64

// begin begins a run of some series.
func (s samples) begin(keys ...string) {
	for _, key := range keys {
		s[key] = append(s[key], nil)
	}
}

// put adds to the last run of a series.
func (s samples) put(key string, took ...time.Duration) {
	last := &s[key][len(s[key])-1]
	for _, t := range took {
		*last = append(*last, t.Nanoseconds())
	}
}

func (s samples) series(key, name string) report.Series { return report.Latencies(key, name, s[key]) }

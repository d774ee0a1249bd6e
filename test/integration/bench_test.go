package integration

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// BenchmarkPublish publishes a one-file volume over gRPC whose object is watched already, and takes it away again outside
// the clock.
func BenchmarkPublish(b *testing.B) {
	bench := newBench(b)
	bench.createConfigMap("web", map[string]string{"color": "red"})
	bench.publish(bench.pod("holder", map[string]string{"configMap": "web"})) // Holds the watch.
	pod := bench.pod("web", map[string]string{"configMap": "web"})
	for b.Loop() {
		if err := bench.node.PublishAll(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		bench.unpublish(pod)
		b.StartTimer()
	}
}

// BenchmarkPublishOfWhatNobodyReads is BenchmarkPublish with an object that has to be read first, in a cluster in which
// other things change all the time.
func BenchmarkPublishOfWhatNobodyReads(b *testing.B) {
	bench := newBench(b)
	bench.createConfigMap("web", map[string]string{"color": "red"})
	bench.createConfigMap("other", nil)
	pod := bench.pod("web", map[string]string{"configMap": "web"})
	for n := 0; b.Loop(); n++ {
		if err := bench.node.PublishAll(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		bench.unpublish(pod)
		bench.updateConfigMap("other", map[string]string{"n": fmt.Sprint(n)})
		b.StartTimer()
	}
}

// BenchmarkUpdate goes from the request that edits a ConfigMap to the new bytes in the volume. Of that, event-to-swap is
// what the driver adds, as its own histogram tells: from the watch event until the files are new.
func BenchmarkUpdate(b *testing.B) {
	bench := newBench(b)
	bench.createConfigMap("web", map[string]string{"n": "0"})
	pod := bench.pod("web", map[string]string{"configMap": "web"})
	bench.publish(pod)
	n := 0
	for b.Loop() {
		n++
		want := fmt.Sprint(n)
		bench.updateConfigMap("web", map[string]string{"n": want})
		for {
			if got, err := os.ReadFile(bench.path(pod, "n")); err == nil && string(got) == want {
				break
			}
		}
	}
	const histogram = "liveconfig_update_duration_seconds"
	sum, count := bench.number(histogram+"_sum"), bench.number(histogram+"_count")
	b.ReportMetric(sum/count*1e6, "event-to-swap-µs")
}

// number returns the value of a series.
func (b *bench) number(series string) float64 {
	b.t.Helper()
	value, err := strconv.ParseFloat(b.metric(series), 64)
	if err != nil {
		b.t.Fatalf("series %s: %v", series, err)
	}
	return value
}

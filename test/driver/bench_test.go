package driver

import (
	"fmt"
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// BenchmarkPublish publishes a one-file volume over gRPC whose object is watched already, and takes it away again outside
// the clock.
func BenchmarkPublish(b *testing.B) {
	bench := newRig(b)
	bench.CreateConfigMap("web", map[string]string{"color": "red"})
	bench.Publish(bench.Pod("holder", map[string]string{"configMap": "web"})) // Holds the watch.
	pod := bench.Pod("web", map[string]string{"configMap": "web"})
	for b.Loop() {
		must(b, bench.Node.PublishAll(b.Context(), pod))
		b.StopTimer()
		bench.Unpublish(pod)
		b.StartTimer()
	}
}

// BenchmarkPublishOfWhatNobodyReads is BenchmarkPublish with an object that has to be read first, in a cluster in which
// other things change all the time.
func BenchmarkPublishOfWhatNobodyReads(b *testing.B) {
	bench := newRig(b)
	bench.CreateConfigMap("web", map[string]string{"color": "red"})
	bench.CreateConfigMap("other", nil)
	pod := bench.Pod("web", map[string]string{"configMap": "web"})
	for n := 0; b.Loop(); n++ {
		must(b, bench.Node.PublishAll(b.Context(), pod))
		b.StopTimer()
		bench.Unpublish(pod)
		bench.UpdateConfigMap("other", map[string]string{"n": fmt.Sprint(n)})
		b.StartTimer()
	}
}

// BenchmarkUpdate goes from the request that edits a ConfigMap to the new bytes in the volume. Of that, event-to-swap is
// what the driver adds, as its own histogram counts: from the watch event until the files are new.
func BenchmarkUpdate(b *testing.B) {
	bench := newRig(b)
	bench.CreateConfigMap("web", map[string]string{"n": "0"})
	pod := bench.Pod("web", map[string]string{"configMap": "web"})
	bench.Publish(pod)
	n := 0
	for b.Loop() {
		n++
		want := fmt.Sprint(n)
		bench.UpdateConfigMap("web", map[string]string{"n": want})
		for {
			if got, err := os.ReadFile(bench.Path(pod, "n")); err == nil && environment.Unmarked(string(got)) == want {
				break
			}
		}
	}
	const histogram = "liveconfig_update_duration_seconds"
	sum, count := bench.Number(histogram+"_sum"), bench.Number(histogram+"_count")
	b.ReportMetric(sum/count*1e6, "event-to-swap-µs")
}

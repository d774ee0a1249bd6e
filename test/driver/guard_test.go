package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// What the driver as it ships costs the node and the API server. The tests below count it, which comes out the same on a
// busy machine. A number that has become smaller is to be made smaller here.
const (
	// requestsPerObject are a list and a watch. More would be made by every node for every object after each restart.
	requestsPerObject = 2
)

// TestGuardRequests counts what the API server is asked for: nothing but a list and a watch for an object that nobody reads
// yet, and an Event for an update. Nothing polls, also not for an object that does not exist.
func TestGuardRequests(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.New(t)}
	b.CreateConfigMap("web", map[string]string{"n": "0"})
	b.SetSecret("cert", map[string]string{"n": "0"})
	configMap := map[string]string{"sources": "[{configMap: {name: web}}, {configMap: {name: none, optional: true}}]"}
	secret := map[string]string{"secret": "cert"}
	first, second := b.Pod("first", configMap), b.Pod("second", configMap)
	others := []*corev1.Pod{b.Pod("third", secret), b.Pod("fourth", secret)}
	const updates = 5
	update := func(value string, in ...*corev1.Pod) {
		b.UpdateConfigMap("web", map[string]string{"n": value})
		for _, pod := range in {
			b.WantFile(pod, "n", value)
		}
	}
	steps := []struct {
		what string
		do   func()
		want int
	}{
		{"to publish two objects that nobody reads", func() { b.Publish(first) }, 2 * requestsPerObject},
		{"to publish objects that are watched", func() { b.Publish(second) }, 0},
		{"to publish a Secret by the pod's token", func() { b.Publish(others[0]) }, requestsPerObject},
		{"to publish it for another pod", func() { b.Publish(others[1]) }, 0},
		{"for a repeat", func() { b.Publish(first) }, 0},
		{"for updates", func() {
			for i := range updates {
				update(fmt.Sprint("update ", i), first, second)
			}
		}, 0},
		{"to unpublish one of two", func() { b.Unpublish(second) }, 0},
		{"to unpublish the last", func() { b.Unpublish(first) }, 0},
		{"to publish them again", func() { b.Publish(first) }, 2 * requestsPerObject},
		{"to unpublish those of the Secret", func() { b.Unpublish(others[0]); b.Unpublish(others[1]) }, 0},
		{"for an update then", func() { update("last", first) }, 0}, // By now, what comes late to the others has come.
	}
	total := 0
	for _, step := range steps {
		step.do()
		total += step.want
		expect.Eventually(t, fixture.Soon, func() error { // A watch is opened while the answer is on its way.
			if got, _ := b.requests(); len(got) != total {
				return fmt.Errorf("%s: %d requests so far, want %d:\n%s", step.what, len(got), total, strings.Join(got, "\n"))
			}
			return nil
		})
	}
	expect.Eventually(t, fixture.Soon, func() error { // News goes out slowly, and what is news no more does not.
		if _, events := b.requests(); events == 0 || events > 2*updates+1 {
			return fmt.Errorf("%d Events were written for %d updates of two volumes, want one for each and volume at most", events, updates)
		}
		return nil
	})

	<-time.After(10 * time.Second)
	if got, _ := b.requests(); len(got) != total {
		t.Errorf("requests in quiet times, want nothing but open watches:\n%s", strings.Join(got[total:], "\n"))
	}
}

// requests returns what drivers have asked the API server for about the bench's namespace, and how many Events they have
// sent.
func (b *rig) requests() (all []string, events int) {
	b.T.Helper()
	records, err := b.Cluster.Requests(time.Time{})
	expect.NoError(b.T, err)
	for _, r := range records {
		switch {
		case r.Namespace != b.Namespace, r.Stage != cluster.StageReceived, !strings.HasPrefix(r.UserAgent, "liveconfig-driver/"):
		case r.Resource == "events":
			events++
		default:
			all = append(all, r.String())
		}
	}
	return all, events
}

// traceVariable, when set, makes TestGuardSystemCalls the program that counts the system calls of a process.
const traceVariable = "LIVECONFIG_TRACE"

// TestGuardSystemCalls counts the system calls on files and mounts by which the driver publishes, updates and unpublishes
// a volume. More means that files are opened, looked at or changed that were not, for every volume: at a microsecond or
// more each, and in the kernel, where no profile of the driver shows them.
func TestGuardSystemCalls(t *testing.T) {
	if pid, err := strconv.Atoi(os.Getenv(traceVariable)); err == nil {
		if err := serveCalls(pid, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err) // Nobody reads anything else of this program's.
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	b := &rig{fixture.NewBare(t)}
	b.Use(environment.NodeAsShipped(t, "--http-endpoint="+b.HTTP, "-v=2"))
	var holders []*corev1.Pod
	for _, keys := range []int{1, 10} {
		name := fmt.Sprintf("keys-%d", keys)
		b.CreateConfigMap(name, valuesOf(keys, 0))
		holders = append(holders, b.Pod(name, map[string]string{"configMap": name}))
		b.Publish(holders[len(holders)-1])
	}
	alone := b.Pod("alone", map[string]string{"configMap": "keys-1", "defaultMode": "0400"})
	shared := b.Pod("shared", map[string]string{"configMap": "keys-1"})
	t.Cleanup(func() {
		b.Unpublish(alone)
		b.Unpublish(shared)
	})
	publish := func(pod *corev1.Pod) func() { return func() { expect.NoError(b.T, b.TryPublish(t.Context(), pod)) } }
	unpublish := func(pod *corev1.Pod) func() {
		return func() { expect.NoError(b.T, b.Node.UnpublishAll(t.Context(), pod)) }
	}
	version := 0
	update := func(pod *corev1.Pod, keys int) func() {
		return func() {
			version++
			b.UpdateConfigMap(pod.Name, valuesOf(keys, version))
			b.WantFile(pod, "key-0", fmt.Sprint(version))
			expect.Eventually(t, fixture.Soon, func() error { return oneGeneration(b.Path(pod, ".")) })
		}
	}
	steps := []struct {
		what string
		do   func()
		want int
	}{
		{"publish", publish(alone), 55},
		{"unpublish", unpublish(alone), 11},
		{"publish of an equal volume", publish(shared), 31},
		{"unpublish of an equal volume", unpublish(shared), 11},
		{"update of 1 key", update(holders[0], 1), 45},
		{"update of 10 keys", update(holders[1], 10), 144},
	}
	c := b.countCalls()
	least := make([]calls, len(steps))
	for range 3 { // Now and then the driver looks whether it can still write its records.
		for i, step := range steps {
			before := c.rest()
			step.do()
			if got := c.rest().minus(before); least[i] == nil || got.sum() < least[i].sum() {
				least[i] = got
			}
		}
	}
	for i, step := range steps {
		got := least[i].sum()
		t.Attr("guard/system-calls-of-"+strings.ReplaceAll(step.what, " ", "-"), strconv.Itoa(got))
		if got > step.want || got < step.want/2 {
			t.Errorf("%s takes %d system calls, want %d: %v", step.what, got, step.want, least[i])
		}
	}
}

// valuesOf is the data of an object with so many keys.
func valuesOf(keys, version int) map[string]string {
	data := map[string]string{}
	for i := range keys {
		data[fmt.Sprintf("key-%d", i)] = fmt.Sprint(version)
	}
	return data
}

// oneGeneration returns an error as long as files that were replaced are still there.
func oneGeneration(volume string) error {
	found, err := filepath.Glob(filepath.Join(volume, "..2*"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d generations, want one", len(found))
	}
	return err
}

// BenchmarkPublish publishes a one-file volume over gRPC whose object is watched already, and takes it away again outside
// the clock.
func BenchmarkPublish(b *testing.B) {
	bench := &rig{fixture.New(b)}
	bench.CreateConfigMap("web", map[string]string{"color": "red"})
	bench.Publish(bench.Pod("holder", map[string]string{"configMap": "web"})) // Holds the watch.
	pod := bench.Pod("web", map[string]string{"configMap": "web"})
	for b.Loop() {
		expect.NoError(b, bench.Node.PublishAll(b.Context(), pod))
		b.StopTimer()
		bench.Unpublish(pod)
		b.StartTimer()
	}
}

// BenchmarkPublishOfWhatNobodyReads is BenchmarkPublish with an object that has to be read first, in a cluster in which
// other things change all the time.
func BenchmarkPublishOfWhatNobodyReads(b *testing.B) {
	bench := &rig{fixture.New(b)}
	bench.CreateConfigMap("web", map[string]string{"color": "red"})
	bench.CreateConfigMap("other", nil)
	pod := bench.Pod("web", map[string]string{"configMap": "web"})
	for n := 0; b.Loop(); n++ {
		expect.NoError(b, bench.Node.PublishAll(b.Context(), pod))
		b.StopTimer()
		bench.Unpublish(pod)
		bench.UpdateConfigMap("other", map[string]string{"n": fmt.Sprint(n)})
		b.StartTimer()
	}
}

// BenchmarkUpdate goes from the request that edits a ConfigMap to the new bytes in the volume. Of that, event-to-swap is
// what the driver adds, as its own histogram counts: from the watch event until the files are new.
func BenchmarkUpdate(b *testing.B) {
	bench := &rig{fixture.New(b)}
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

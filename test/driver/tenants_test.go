package driver

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// asShipped is a bench whose driver is as it is shipped: what is counted is how much it takes of the machine.
func asShipped(t *testing.T, args ...string) *fixture.Fixture {
	t.Helper()
	b := fixture.NewBare(t)
	b.Use(environment.NodeAsShipped(t, append(args, "--http-endpoint="+b.HTTP)...))
	return b
}

// cpuOf returns how much processor time the driver has taken. The kernel counts it in hundredths of a second.
func cpuOf(b *fixture.Fixture) time.Duration {
	b.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.Node.PID()))
	must(b.T, err)
	_, after, _ := strings.Cut(string(text), ") ") // Fields from the third.
	fields := strings.Fields(after)
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime.
		n := 0
		if _, err := fmt.Sscan(field, &n); err != nil {
			b.T.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// manyFiles is the text of as many items as an attribute holds, all of one key.
func manyFiles(key string) string {
	const letters = "ghijklmpqrstuvwz" // They make no numbers.
	var text strings.Builder
	for i := range 3448 {
		fmt.Fprintf(&text, "{key: %s,path: %c%c%c},", key, letters[i>>8], letters[i>>4&15], letters[i&15])
	}
	return "[" + text.String() + "]"
}

// TestATreeThatNobodyHasRoomFor is fault 37: a few words of a pod's author stand for gigabytes of files.
func TestATreeThatNobodyHasRoomFor(t *testing.T) {
	t.Parallel()
	const (
		tries  = 20
		oneTry = 60 * time.Millisecond // It takes 19 in all, and up to three times as long on a busy machine.
	)
	b := asShipped(t, "--volume-memory=64Mi")
	b.CreateConfigMap("large", map[string]string{"k": strings.Repeat("x", large)})
	b.CreateConfigMap("small", map[string]string{"k": "small"})
	b.Publish(b.Pod("reader", map[string]string{"configMap": "large"}))
	pods := make([]*corev1.Pod, tries)
	for i := range pods {
		pods[i] = b.Pod(fmt.Sprint("refused-", i), map[string]string{"configMap": "large", "items": manyFiles("k")})
	}
	before := cpuOf(b)
	for _, pod := range pods {
		if err := b.TryPublish(t.Context(), pod); status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("publish = %v, want that there is no room", err)
		}
	}
	if took := cpuOf(b) - before; took > tries*oneTry {
		t.Errorf("%d publishes that were refused took %s of processor time, want at most %s each", tries, took, oneTry)
	}

	live := b.Pod("live", map[string]string{"configMap": "small", "items": manyFiles("k")})
	b.Publish(live)
	before = cpuOf(b)
	b.UpdateConfigMap("small", map[string]string{"k": strings.Repeat("y", large)})
	b.WantEvent(live, "NoRoom", "")
	<-time.After(5 * time.Second) // In which it would be tried again all the time.
	if took := cpuOf(b) - before; took > time.Second {
		t.Errorf("a change that there is no room for took %s of processor time in some seconds, want hardly any", took)
	}
	if err := b.Holds(live, "ggg", "small"); err != nil {
		t.Error(err)
	}
	b.UpdateConfigMap("small", map[string]string{"k": "small again"})
	environment.Eventually(t, healed, func() error { return b.Holds(live, "ggg", "small again") })
}

// expensiveTexts are what takes a reader of YAML longest.
func expensiveTexts() []string {
	filled := func(open, part, end string) string {
		return open + strings.Repeat(part, (64<<10-len(open)-len(end))/len(part)) + end
	}
	return []string{
		filled("[", "{a,a,a,a,a,a,a,a},", "]"),
		filled("[", "a,", "]"),
		filled("{", "a,", "}"),
		filled("[", "{},", "]"),
		filled("- {configMap: &a {name: app}}\n", "- {secret: *a}\n", ""),
		filled("- &a ["+strings.Repeat("{secret: {name: x}}, ", 2000)+"]\n- [", "*a, ", "]"),
		filled("[", "{secret: {name: x}},", "]"),
		filled("[", "!!str a,", "]"),
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
	}
}

// TestTextsThatAreExpensiveToRead is fault 38: two hundred at once, each of another kind than the one before.
func TestTextsThatAreExpensiveToRead(t *testing.T) {
	t.Parallel()
	const (
		count    = 200
		moreRSS  = 100 << 20
		moreTime = 10 * time.Second
	)
	b := asShipped(t, "--publish-timeout=1s")
	texts := expensiveTexts()
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = b.Pod(fmt.Sprint("reader-", i), map[string]string{"sources": texts[i%len(texts)]})
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", b.Node.PID()), []byte("5"), 0); err != nil { // Forget the peak.
		t.Fatal(err)
	}
	rss, cpu := 1024*numberIn(b, "status", "VmRSS:"), cpuOf(b)
	var g errgroup.Group
	for _, pod := range pods {
		g.Go(func() error {
			switch err := b.TryPublish(t.Context(), pod); status.Code(err) {
			case codes.InvalidArgument, codes.ResourceExhausted:
				return nil
			default:
				return fmt.Errorf("publish of %.40q: %w", pod.Spec.Volumes[0].CSI.VolumeAttributes["sources"], err)
			}
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	grown, took := 1024*numberIn(b, "status", "VmHWM:")-rss, cpuOf(b)-cpu
	t.Logf("%d texts at once took %d MiB and %s of processor time", count, grown>>20, took)
	if grown > moreRSS || took > moreTime {
		t.Errorf("%d texts at once took %d MiB and %s of processor time, want at most %d MiB and %s", count, grown>>20, took, moreRSS>>20, moreTime)
	}
}

// TestLiveVolumesAreChargedWithWhatTheyHold is fault 39: their attributes, what these say, and their records.
func TestLiveVolumesAreChargedWithWhatTheyHold(t *testing.T) {
	t.Parallel()
	const count = 60
	b := asShipped(t)
	set(b, "small", "small")
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			b.Publish(b.Pod(fmt.Sprint("reader-", i), map[string]string{
				"configMap": "small", "items": manyFiles("k"), "optional": "true",
			}))
		}
	}
	publish(0, 10)
	room := func() float64 { return b.Number("liveconfig_room_used_bytes") }
	used, before := room(), rssOf(b)
	publish(10, 10+count)
	used = (room() - used) / count
	const settled = 150 * time.Second // Publishing leaves garbage, which Go collects every two minutes at least.
	environment.Eventually(t, settled, func() error {
		held := (rssOf(b) - before) / count
		if int(used) < held {
			return fmt.Errorf("a volume is charged with %.0f bytes, and takes %d of the process", used, held)
		}
		t.Logf("a volume of 3448 items is charged with %.0f KiB, and takes %d KiB of the process", used/1024, held/1024)
		return nil
	})
}

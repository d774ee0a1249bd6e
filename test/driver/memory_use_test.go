package driver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// TestUnrelatedSecrets (faults 29 and 30) fills the namespace with large Secrets that the pod may read and does not mount. The
// driver hears nothing of them, and its memory does not grow; it does for those that are mounted.
func TestUnrelatedSecrets(t *testing.T) {
	t.Parallel()
	b := fixture.NewBare(t)
	b.Use(environment.NodeAsShipped(t, "--http-endpoint="+b.HTTP)) // The race detector takes memory itself.
	b.AllowSecrets("default")
	b.SetSecret("web", map[string]string{"n": "0"})
	pod := b.Pod("web", map[string]string{"secret": "web"})
	b.Publish(pod)
	// settle has the driver do a few things of all sorts, so that what it holds is what it always holds.
	settle := func(from string) {
		for i := range 20 {
			b.SetSecret("web", map[string]string{"n": fmt.Sprint(from, i)})
			b.WantFile(pod, "n", fmt.Sprint(from, i))
		}
	}
	settle("before")
	before, read := rssOf(b), readBy(b)
	const size, bound, mounted, quiet = 1_000_000, 8 << 20, 24, 200_000
	secrets := soak.Rounds(48, 1000)
	createSecrets(b, secrets, size)
	settle("after")
	grown, heard := rssOf(b)-before, readBy(b)-read
	t.Attr("memory/unrelated-secrets", strconv.Itoa(secrets))
	t.Attr("memory/rss-before-MiB", strconv.Itoa(before>>20))
	t.Attr("memory/rss-growth-KiB", strconv.Itoa(grown>>10))
	t.Attr("storm/bytes-read-for-unrelated-secrets", strconv.Itoa(heard))
	if grown > bound || heard > quiet {
		t.Errorf("%d Secrets that nobody mounts made the driver grow by %d bytes and read %d", secrets, grown, heard)
	}

	control := b.Pod("control", map[string]string{"secret": "large-0"})
	for i := 1; i < mounted; i++ {
		fixture.AddVolume(control, fmt.Sprintf("v%d", i), map[string]string{"secret": fmt.Sprintf("large-%d", i)})
	}
	b.Publish(control)
	larger := strings.Repeat("y", size) // A list may be compressed, and the event of a change is not.
	b.SetSecret("large-0", map[string]string{"x": larger})
	b.WantFile(control, "x", larger)
	grown, heard = rssOf(b)-before, readBy(b)-read
	t.Attr("memory/rss-growth-of-mounted-MiB", strconv.Itoa(grown>>20))
	if grown < 2*bound || heard < 2*quiet {
		t.Errorf("%d large Secrets that are mounted made the driver grow by %d bytes and read %d, want more: the measure shows nothing",
			mounted, grown, heard)
	}
}

// TestMemoryRunsOutWithoutABudget (fault 29) is the control of [TestMemoryRunsOut]: a driver with a flag for far more
// memory than its container is killed by the kernel for the same volumes. Where no container can be made, their files
// have to take more than it would have.
func TestMemoryRunsOutWithoutABudget(t *testing.T) {
	t.Parallel()
	for name, bare := range bareOrigins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newContained(t, bare, 1).runsOutWithoutABudget(t)
		})
	}
}

func (b *small) runsOutWithoutABudget(t *testing.T) {
	t.Helper()
	b.launch("--volume-memory=1Gi")
	b.set(0, large)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, pod := range b.podsOf(80) {
		g.Go(func() error {
			if b.Node.Alive() == nil {
				ctx, cancel := context.WithTimeout(t.Context(), atLength)
				defer cancel()
				_ = b.TryPublish(ctx, pod) // It fails, or waits for another driver, when this one is killed.
			}
			return nil
		})
	}
	_ = g.Wait() // As above.
	if b.group == nil {
		if got := b.Number("liveconfig_room_used_bytes"); got < smallContainer {
			t.Errorf("the volumes take %.0f bytes, want more than %d: then the other tests show nothing", got, smallContainer)
		}
		return
	}
	expect.Eventually(t, fixture.Soon, func() error { // A process that was killed needs a moment to end.
		kills, err := b.group.Kills()
		if err == nil && (kills == 0 || b.Node.Alive() == nil) {
			err = fmt.Errorf("the kernel has killed %d processes, want the driver: else the other tests show nothing", kills)
		}
		return err
	})
	expect.NoError(t, b.group.Raise(8*smallContainer))
	b.Start() // With memory for what is there, it can take it away.
}

// TestLiveVolumesAreChargedWithWhatTheyHold is fault 39: their attributes, what is parsed from them, and their records.
func TestLiveVolumesAreChargedWithWhatTheyHold(t *testing.T) {
	t.Parallel()
	const count = 60
	b := fixture.NewBare(t)
	b.Use(environment.NodeAsShipped(t, "--http-endpoint="+b.HTTP))
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
	expect.Eventually(t, settled, func() error {
		held := (rssOf(b) - before) / count
		if int(used) < held {
			return fmt.Errorf("a volume is charged with %.0f bytes, and takes %d of the process", used, held)
		}
		t.Logf("a volume of 3448 items is charged with %.0f KiB, and takes %d KiB of the process", used/1024, held/1024)
		return nil
	})
}

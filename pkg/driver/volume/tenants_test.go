package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// repeated is the text of so many items that make a file of the same key.
func repeated(key string, count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "{key: %s, path: f%x},", key, i)
	}
	return "[" + text.String() + "]"
}

// TestAChangeThatThereIsNeverRoomFor is tried a few times when it comes, and hardly ever after that (fault 37).
func TestAChangeThatThereIsNeverRoomFor(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "small")
		_, option := limited(64 << 20)
		d, r := n.live(configMap("web", "items", repeated("a", 1000)), option)
		pass(settling)
		n.seen.forget()
		n.cluster.set(web, "a", strings.Repeat("x", 1_000_000))
		pass(10 * time.Minute)
		if got := n.seen.results()[volume.ResultFailed]; got < 2 || got > 12 {
			n.Errorf("it was tried %d times in ten minutes, want again after a minute each", got)
		}
		if problem, err := d.Condition(r.VolumeID, r.TargetPath); err != nil || problem == nil || !strings.Contains(problem.Error(), "no room left") {
			n.Errorf("Condition = %v, %v, want that there is no room", problem, err)
		}
		n.set(web, "a", "small again")
		n.wantProblem(r, "")
	})
}

// TestNamespacesTakeTurns: the change of one volume does not wait for those of another namespace's hundreds (fault 40).
func TestNamespacesTakeTurns(t *testing.T) {
	bubble(t, func(n *node) {
		quiet := api.Ref{Kind: api.ConfigMap, Namespace: "quiet", Name: "web"}
		n.cluster.set(web, "a", "1")
		n.cluster.set(quiet, "a", "1")
		d := n.start()
		for i := range 300 {
			d.publish(n.request(fmt.Sprint("busy-", i), configMap("web", api.KeyUID, fmt.Sprint(i))))
		}
		bystander := n.request("bystander", configMap("web"))
		bystander.Pod.Namespace = "quiet"
		d.publish(bystander)
		pass(settling)
		n.seen.forget()
		release := n.faults.hang("open")
		n.cluster.set(web, "a", "2")
		pass(time.Millisecond) // By now all workers are at one of the busy ones, and the others wait.
		n.cluster.set(quiet, "a", "2")
		pass(time.Millisecond)
		release()
		pass(settling)
		before := 0
		for _, e := range n.seen.all() {
			if e.Pod == bystander.Pod.String() {
				break
			}
			before++
		}
		if before > 100 || before == len(n.seen.all()) { // Its worker may be set aside by the machine for a while.
			n.Errorf("the quiet namespace's volume came after %d of the busy one's 300, want it soon", before)
		}
	})
}

// TestWhatVolumesHoldIsCharged: attributes, what they say, and records, in any shape (fault 39). It is not parallel because
// others would allocate too.
func TestWhatVolumesHoldIsCharged(t *testing.T) {
	const count = 20
	sources := func(entry string, count int) map[string]string {
		var text strings.Builder
		for i := range count {
			fmt.Fprintf(&text, entry, i)
		}
		return map[string]string{"sources": "[" + text.String() + "]"}
	}
	tests := map[string]map[string]string{
		"nothing":      {"configMap": "web"},
		"items":        {"configMap": "web", "items": repeated("gone", 2500), "optional": "true"},
		"items, modes": {"configMap": "web", "items": strings.ReplaceAll(repeated("gone", 1400), "}", ", mode: 1, user: 1}"), "optional": "true"},
		"sources":      sources("{configMap: {name: c%d, optional: true}},", 1000),
		"the same":     {"sources": "[" + strings.Repeat("{configMap: {name: web, optional: true}},", 1000) + "]"},
		"a comment":    {"configMap": "web", "items": "[{key: a, path: a}] #" + strings.Repeat("x", 60_000)},
		"a long path":  {"configMap": "web", "items": "[{key: a, path: " + strings.Repeat("x/", 60) + "a}]"},
	}
	for name, attributes := range tests {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.cluster.set(web, "a", "")
			room, option := limited(1 << 40)
			d := n.build(option)
			if err := d.Recover(n.ctx); err != nil {
				t.Fatal(err)
			}
			publish := func(from, to int) {
				for i := from; i < to; i++ {
					r := n.request(fmt.Sprint("v", i), cloned(attributes))
					if err := d.Manager.Publish(n.ctx, r, access.Token{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			publish(0, 5) // What all share is there by then.
			used, held := room.Used(), heap()+recorded(t, n)
			publish(5, 5+count)
			used, held = room.Used()-used, heap()+recorded(t, n)-held
			t.Logf("each takes %d bytes of the room, and holds %d", used/count, held/count)
			if used < held {
				t.Errorf("%d volumes take %d bytes of the room, and hold %d", count, used, held)
			}
			runtime.KeepAlive(d)
		})
	}
}

func cloned(attributes map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range attributes {
		all[key] = strings.Clone(value) // As each request brings its own.
	}
	return all
}

// heap returns how much memory is in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // What the first one has finalizers for.
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse)
}

// recorded returns how much memory the records would take on a tmpfs.
func recorded(t *testing.T, n *node) int64 {
	t.Helper()
	const page = 4096
	total := int64(0)
	err := filepath.WalkDir(filepath.Join(n.dir, "state"), func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			total += (info.Size() + page - 1) / page * page
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// TestAttributesAreChargedBeforeTheyAreRead: a publish that there is no room for is refused for that, whatever its text
// says (fault 38).
func TestAttributesAreChargedBeforeTheyAreRead(t *testing.T) {
	bubble(t, func(n *node) {
		_, option := limited(volume.BytesPerVolume)
		d := n.start(option)
		r := n.request("config", configMap("web", "items", "no list"))
		d.wantRefused(r, volume.Exhausted)
	})
}

package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// alone runs a test on a node in a synctest bubble, with nothing beside it: what it counts belongs to the whole process.
// Nothing is logged but errors, as by a driver with the verbosity that it ships with.
func alone(t *testing.T, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.ctx = klog.NewContext(t.Context(), klog.Logger{})
		test(n)
	})
}

// publishMany publishes volumes by number, each of the object that its number has, and takes them away in the end.
func (d *driver) publishMany(from, to int, object func(i int) string) []state.Record {
	d.n.Helper()
	var all []state.Record
	for i := from; i < to; i++ {
		r := d.n.request(fmt.Sprintf("volume-%d", i), configMap(object(i)))
		d.publish(r)
		d.n.Cleanup(func() { _ = d.Unpublish(d.n.ctx, r.VolumeID, r.TargetPath) })
		all = append(all, r)
	}
	pass(settling)
	return all
}

// one is the object that all volumes share.
func one(int) string { return web.Name }

// edit changes the object that all volumes share, behind the driver's back, to so many keys of 1 KiB together.
func (n *node) edit(keys, version int) {
	value := strings.Repeat(fmt.Sprint(version%10), 1024/keys)
	var data []string
	for i := range keys {
		data = append(data, fmt.Sprintf("key-%d", i), value)
	}
	n.cluster.slip(web, data...)
}

// costs is how many objects are made on the heap.
type costs struct{ written, unchanged, looked uint64 }

// leastCosts returns what one change of the object costs in all volumes, from the moment that the source reports it: when
// it changes the files, when it does not, and in the look at the files that follows. It is the least of many times, because
// pools lose what they hold now and then, with the race detector on purpose, and of many more where that is above the most:
// on a busy machine the workers get into each other's way.
func (d *driver) leastCosts(keys int, most costs) costs {
	const times, more = 20, 200
	key := source.Key{Identity: identity.Driver(), Ref: web}
	least := costs{^uint64(0), ^uint64(0), ^uint64(0)}
	for version := 0; version < times || version < more && least.exceeds(most); version++ {
		d.n.edit(keys, version)
		d.n.seen.forget() // Nothing of it grows while it is counted.
		least.written = min(least.written, allocations(func() { d.Changed(key); synctest.Wait() }))
		least.unchanged = min(least.unchanged, allocations(func() { d.Changed(key); synctest.Wait() }))
		least.looked = min(least.looked, allocations(func() { pass(settling) }))
	}
	return least
}

// exceeds reports whether one of the costs is above the most.
func (c costs) exceeds(most costs) bool {
	return c.written > most.written || c.unchanged > most.unchanged || c.looked > most.looked
}

func (c costs) of(volumes uint64) costs {
	return costs{volumes * c.written, volumes * c.unchanged, volumes * c.looked}
}

// most allows a little more, since the compiler influences it.
func (c costs) most() costs { return costs{most(c.written), most(c.unchanged), most(c.looked)} }

func most(want uint64) uint64 { return want + want/16 }

func allocations(of func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	of()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// TestGuardAllocations counts what an update makes on the heap, from the word that an object has changed until its files
// are new on a real mount: contents, tree, digest, and all that writing takes. More of it means that something is copied,
// looked at or reported that was not, for each change and each volume; and what is made per key may not depend on others. The numbers are those with the race detector, and a little lower without.
func TestGuardAllocations(t *testing.T) {
	for keys, want := range map[int]costs{
		1:  {written: 76, unchanged: 22, looked: 72},
		10: {written: 158, unchanged: 25, looked: 211},
	} {
		for _, volumes := range []uint64{1, 10} {
			alone(t, func(n *node) {
				n.edit(keys, 9)
				d := n.start(onKernel)
				d.publishMany(0, int(volumes), one)
				want := want.of(volumes)
				got := d.leastCosts(keys, want.most())
				name := fmt.Sprintf("%d volumes of %d keys", volumes, keys)
				t.Attr("guard/allocations-"+strings.ReplaceAll(name, " ", "-"), fmt.Sprintf("%+v", got))
				wantAbout(t, name+" that are written", got.written, want.written)
				wantAbout(t, name+" that do not change", got.unchanged, want.unchanged)
				wantAbout(t, name+" that are looked at", got.looked, want.looked)
			})
		}
	}
}

// wantAbout allows a little more, and half: less would mean that nothing was measured.
func wantAbout(t *testing.T, what string, got, want uint64) {
	t.Helper()
	if got > most(want) || got < want/2 {
		t.Errorf("allocations for %s: %d, want %d, and %d at most", what, got, want, most(want))
	}
}

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
		other, quiet := web, web
		other.Namespace, quiet.Namespace = "other", "quiet"
		for _, ref := range []api.Ref{web, other, quiet} {
			n.cluster.set(ref, "a", "1")
		}
		d := n.start()
		for i := range 300 {
			r := n.request(fmt.Sprint("busy-", i), configMap("web", api.KeyUID, fmt.Sprint(i)))
			r.Pod.Namespace = []string{web.Namespace, other.Namespace}[i%2]
			d.publish(r)
		}
		bystander := n.request("bystander", configMap("web"))
		bystander.Pod.Namespace = quiet.Namespace
		d.publish(bystander)
		pass(settling)
		gate, ask := make(chan struct{}), n.mounts.Fail
		n.mounts.Fail = func(op, target string) error {
			if op == "open" && strings.Contains(target, "/busy-") {
				<-gate
			}
			return ask(op, target)
		}
		n.cluster.set(web, "a", "2")
		n.cluster.set(other, "a", "2")
		pass(time.Millisecond) // By now all workers are at a busy one, and the others wait.
		n.cluster.set(quiet, "a", "2")
		pass(time.Millisecond)
		isDone := func() bool { return n.files(bystander.TargetPath)["a"] == "2" }
		before := 0
		for ; !isDone() && before < 10; before++ {
			gate <- struct{}{}
			pass(time.Millisecond)
		}
		if before == 0 || before > 3 {
			n.Errorf("the quiet namespace's volume came after %d of the busy ones, want 1 to 3", before)
		}
		close(gate)
		pass(settling)
	})
}

// TestWhatVolumesHoldIsCharged: attributes, what is parsed from them, and records, in any shape (fault 39). It is not parallel because
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
			n.must(d.Recover(n.ctx))
			publish := func(from, to int) {
				for i := from; i < to; i++ {
					r := n.request(fmt.Sprint("v", i), cloned(attributes))
					n.must(d.Manager.Publish(n.ctx, vouched(r, access.Token{})))
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

// TestAttributesAreChargedBeforeTheyAreRead (fault 38): a publish without room is refused before its attributes are parsed.
func TestAttributesAreChargedBeforeTheyAreRead(t *testing.T) {
	bubble(t, func(n *node) {
		_, option := limited(volume.BytesPerVolume)
		d := n.start(option)
		r := n.request("config", configMap("web", "items", "no list"))
		d.wantRefused(r, volume.Exhausted)
	})
}

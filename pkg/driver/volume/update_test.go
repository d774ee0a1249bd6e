package volume_test

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestUpdateReachesTheFiles is an update to other, to fewer and to no keys (rule 48), at once (rule 61).
func TestUpdateReachesTheFiles(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.published()
		pass(time.Minute)
		n.seen.forget()
		changed := time.Now()
		n.set(web, "a", "2", "b", "new")
		n.wantFiles(r, map[string]string{"a": "2", "b": "new"})
		n.set(web, "b", "new")
		n.wantFiles(r, map[string]string{"b": "new"})
		n.set(web)
		n.wantFiles(r, map[string]string{})

		written := func(after time.Duration) outcome {
			return outcome{result: volume.ResultWritten, since: changed.Add(after)}
		}
		look := outcome{result: volume.ResultUnchanged} // For what the old files' last readers have left.
		want := []outcome{written(0), look, written(settling), look, written(2 * settling), look}
		wantSame(n, "syncs", want, n.seen.outcomes())
		told := `Projected: volume "config": a change of the sources is in the files`
		n.wantTold(told, told, told)
	})
}

// TestUpdateWritesAsItsPolicySays looks at what tells the policies apart from outside: links and inodes.
func TestUpdateWritesAsItsPolicySays(t *testing.T) {
	t.Parallel()
	tests := map[api.UpdatePolicy]struct {
		isLink, keepsInode bool
	}{
		api.UpdateAtomic:  {isLink: true},
		api.UpdateReplace: {},
		api.UpdateInPlace: {keepsInode: true},
	}
	for policy, tt := range tests {
		bubbleCase(t, string(policy), func(n *node) {
			_, r := n.published(api.KeyUpdatePolicy, string(policy))
			// While the file is open its inode cannot be used for another.
			f, err := os.Open(r.TargetPath + "/a")
			n.must(err)
			defer f.Close()
			before, err := f.Stat()
			n.must(err)
			n.wantUpdate(r, "22")
			after, err := os.Stat(r.TargetPath + "/a")
			n.must(err)
			wantSame(n, "same inode", tt.keepsInode, os.SameFile(before, after))
			link, err := os.Lstat(r.TargetPath + "/a")
			n.must(err)
			wantSame(n, "is a link", tt.isLink, link.Mode()&os.ModeSymlink != 0)
		})
	}
}

// TestVolumeThatNeverUpdates is behind nothing, although its source changes for others.
func TestVolumeThatNeverUpdates(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published(api.KeyUpdatePolicy, string(api.UpdateNever))
		check := func(when string) {
			n.wantNoUsers()
			n.cluster.set(web, "a", when)
			pass(2 * resyncInterval)
			n.wantShown(r, map[string]string{"a": "1"}, "")
		}
		check("after publish")
		d.publish(r)
		check("after a repeat")
		d = d.restart()
		check("after a restart")
		d.publish(r)
		check("after a repeat and a restart")
		wantSame(n, "syncs", 0, len(n.seen.outcomes()))

		other := n.request("other", configMap("web"))
		d.publish(other)
		n.wantUpdate(other, "2")
		n.wantFiles(r, map[string]string{"a": "1"})
		if s := d.Summary(); s.Staleness != 0 || s.Frozen != 0 {
			n.Errorf("Summary() = %+v, want nothing", s)
		}
		if got := d.Status(allPods)[0]; got.State != statusz.Frozen || got.Problem != nil {
			n.Errorf("volume = %+v, want it frozen by its own choice", got)
		}
	})
}

// TestManyChangesAreFewWrites: what changes during a write is one more write, however often it changes. This is fault 30.
func TestManyChangesAreFewWrites(t *testing.T) {
	bubble(t, func(n *node) {
		// Atomic would name both writes by the same instant of the bubble's clock.
		_, r := n.published(api.KeyUpdatePolicy, string(api.UpdateReplace))
		first := true
		n.faults.on("open", func() {
			if !first {
				return
			}
			first = false
			for i := range 100 {
				n.cluster.set(web, "a", strconv.Itoa(100+i))
			}
		})
		n.set(web, "a", "2")
		n.wantFiles(r, map[string]string{"a": "199"})
		wantSame(n, "the volume was opened times", 2, n.faults.count("open"))
	})
}

func TestChangesBeforeTheWorkersRunAreOneWrite(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		d.stop()
		next := n.build()
		n.must(next.Recover(n.ctx))
		pass(settling)
		n.seen.forget()
		began := time.Now()
		for i := range 10 {
			n.set(web, "a", strconv.Itoa(10+i))
		}
		next.run()
		synctest.Wait()
		n.wantFiles(r, map[string]string{"a": "19"})
		wantSame(n, "written", 1, n.seen.results()[volume.ResultWritten])
		// The latency counts from the first change that the files lacked: the answer after the restart.
		want := outcome{result: volume.ResultWritten, since: began.Add(latency - settling)}
		wantSame(n, "first sync", want, n.seen.outcomes()[0])
	})
}

// TestRemoveSparesTheOtherSources: what goes with a deleted source is its own files.
func TestRemoveSparesTheOtherSources(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k1")
		_, r := n.live(map[string]string{
			api.KeySources:  `[{configMap: {name: web}}, {secret: {name: tls}}, {secret: {name: tls, items: [{key: key, path: b}]}}]`,
			api.KeyOnDelete: string(api.OnDeleteRemove),
		})
		n.wantFiles(r, map[string]string{"a": "1", "key": "k1", "b": "k1"})
		n.remove(tls)
		n.wantFiles(r, map[string]string{"a": "1"})
		// A key that a source lacks is not a deleted source.
		n.set(tls, "other", "k2")
		n.wantShown(r, map[string]string{"a": "1"}, "references non-existent secret key: key")
	})
}

// TestSafetyNetBringsWhatNoEventBrought: without any cause a volume is synced once an interval, give or take a half.
func TestSafetyNetBringsWhatNoEventBrought(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.published()
		n.cluster.slip(web, "a", "2")
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "1"})
		pass(resyncInterval * 3 / 2)
		n.wantFiles(r, map[string]string{"a": "2"})
	})
}

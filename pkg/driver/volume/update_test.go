package volume_test

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
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
		n.wantReported(told, told, told)
	})
}

// TestUpdateFollowsItsPolicy looks at the difference between the policies from outside: links and inodes.
func TestUpdateFollowsItsPolicy(t *testing.T) {
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
		_, r := n.live(sources("{configMap: {name: web}}, {secret: {name: tls}}, {secret: {name: tls, items: [{key: key, path: b}]}}",
			api.KeyOnDelete, string(api.OnDeleteRemove)))
		n.wantFiles(r, map[string]string{"a": "1", "key": "k1", "b": "k1"})
		n.remove(tls)
		n.wantFiles(r, map[string]string{"a": "1"})
		// A key that a source lacks is not a deleted source.
		n.set(tls, "other", "k2")
		n.wantShown(r, map[string]string{"a": "1"}, "references non-existent secret key: key (secret default/tls, sources[2].secret.items[0])")
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

// A source of a live volume has to be gone for this long to count as deleted.
const absence = source.AbsenceTime

// wishes are the attributes of volumes of the ConfigMap web, by what they want when it is gone.
func wishes() map[string]map[string]string {
	return map[string]map[string]string{
		"optional": configMap("web", api.KeyOptional, "true"),
		"Remove":   configMap("web", api.KeyOnDelete, string(api.OnDeleteRemove)),
		"Keep":     configMap("web", api.KeyOnDelete, string(api.OnDeleteKeep)),
		"nothing":  configMap("web"),
	}
}

// eachWish runs a test for each of them.
func eachWish(t *testing.T, test func(n *node, d *driver, r state.Record)) {
	t.Helper()
	t.Parallel()
	for name, attributes := range wishes() {
		bubbleCase(t, name, func(n *node) {
			n.cluster.set(web, "a", "1")
			d, r := n.live(attributes)
			pass(time.Minute)
			n.seen.forget()
			test(n, d, r)
		})
	}
}

// TestAReplacedSourceIsOneChange is fault 25. `kubectl replace --force` deletes an object and creates it again at once. All
// files stay meanwhile, and the pod gets one Event, for the change. Repeats in between change nothing. If the new object equals
// the old one, the pod gets no Event.
func TestAReplacedSourceIsOneChange(t *testing.T) {
	eachWish(t, func(n *node, d *driver, r state.Record) {
		before := "1"
		for _, a := range []string{"2", "3", "3"} {
			n.seen.forget()
			n.cluster.remove(web)
			for range 3 {
				pass(absence / 4)
				n.wantShown(r, map[string]string{"a": before}, "")
				d.publish(r)
			}
			n.wantReported()
			n.cluster.set(web, "a", a)
			pass(latency)
			n.wantFiles(r, map[string]string{"a": a})
			pass(10 * absence)
			if a == before {
				n.wantReported()
				wantSame(n, "writes, want none", 0, n.seen.results()[volume.ResultWritten])
			} else {
				n.wantReported(projected)
				wantSame(n, "writes, want one", 1, n.seen.results()[volume.ResultWritten])
			}
			before = a
		}
		n.wantProblem(r, "")
	})
}

// TestDeletedSource deletes the source of a live volume for good (rule 47). The absence is believed when it has lasted, and
// not before. A restart changes nothing, and the files come back with the source.
func TestDeletedSource(t *testing.T) {
	eachWish(t, func(n *node, d *driver, r state.Record) {
		gone := time.Now()
		n.cluster.remove(web)
		pass(absence - latency)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantReported()
		pass(2 * latency)
		files, problem, told := map[string]string{}, "", projected
		if r.Attributes[api.KeyOptional] == "" && r.Attributes[api.KeyOnDelete] != string(api.OnDeleteRemove) {
			files["a"], problem = "1", `configmap "web" not found`
			told = `SourceMissing: volume "config": the files stay as they are: ` + problem
		}
		if first := n.seen.outcomes()[0]; problem == "" && first != (outcome{result: volume.ResultWritten, since: gone}) {
			n.Errorf("the first sync is %v, want it written, and counted from when the deletion became known", first)
		}
		d.publish(r)
		n.wantFiles(r, files)
		n.wantReported(told)
		n.wantProblem(r, problem)
		d.restart()
		n.wantShown(r, files, problem)
		n.seen.forget()
		n.wantUpdate(r, "again")
		n.wantProblem(r, "")
		if problem != "" {
			n.wantReported(`Projected: volume "config": the files are current again`)
		}
	})
}

// TestTheNextRunHoldsAnAbsenceToo: a driver that starts while an object is replaced finds that it is gone, and does not know
// since when.
func TestTheNextRunHoldsAnAbsenceToo(t *testing.T) {
	eachWish(t, func(n *node, d *driver, r state.Record) {
		n.cluster.remove(web)
		pass(latency)
		d.stop()
		n.start()
		pass(absence / 2)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantReported()
		n.cluster.set(web, "a", "2")
		pass(latency)
		n.wantFiles(r, map[string]string{"a": "2"})
		pass(10 * absence)
		n.wantReported(projected)
		n.wantProblem(r, "")
	})
}

// TestWhatIsNotInTheFilesIsNotHeld: a source that was absent when the volume was published is absent at once, and delays no
// change of another one.
func TestWhatIsNotInTheFilesIsNotHeld(t *testing.T) {
	bubble(t, func(n *node) {
		d, _ := n.ready()
		r := n.request("config", sources("{configMap: {name: web}}, {configMap: {name: override, optional: true}}"))
		began := time.Now()
		wantSoon := func(what string) {
			n.Helper()
			if took := time.Since(began); took >= absence {
				n.Fatalf("%s took %s, want it within %s", what, took, absence)
			}
		}
		d.publish(r)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.cluster.set(web, "a", "2")
		pass(latency)
		n.wantFiles(r, map[string]string{"a": "2"})
		wantSoon("publish and update")

		// A volume that comes later is not held either.
		override := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "override"}
		n.cluster.set(override, "b", "1", "a", "covered")
		pass(time.Minute)
		n.wantFiles(r, map[string]string{"a": "covered", "b": "1"})
		n.cluster.remove(override)
		late := n.request("late", r.Attributes)
		began = time.Now()
		d.publish(late)
		n.wantFiles(late, map[string]string{"a": "2"})
		n.wantFiles(r, map[string]string{"a": "covered", "b": "1"})
		wantSoon("the second publish")
		pass(2 * absence)
		n.wantFiles(r, map[string]string{"a": "2"}) // What a later source has covered is back (rule 12).
		n.set(override, "a", "again")
		n.wantFiles(r, map[string]string{"a": "again"})
	})
}

// eventful is sources that change each time that somebody has looked.
type eventful struct {
	volume.Sources

	looked func()
}

func (s eventful) Look(keys ...source.Key) []source.Snapshot {
	known := s.Sources.Look(keys...)
	s.looked()
	return known
}

// TestASyncSeesOneMoment of its sources, although both change while it is under way.
func TestASyncSeesOneMoment(t *testing.T) {
	bubble(t, func(n *node) {
		round := 0
		change := func() {
			round++
			n.cluster.set(web, web.Name, strconv.Itoa(round))
			n.cluster.set(other, other.Name, strconv.Itoa(round))
		}
		change()
		const last = 50
		var isLive bool
		var r state.Record
		looked := func() {
			if !isLive || round == last {
				return
			}
			if got := n.files(r.TargetPath); got[web.Name] != got[other.Name] {
				n.Errorf("files of different moments: %v", got)
			}
			change()
		}
		_, r = n.live(sources("{configMap: {name: web}}, {configMap: {name: other}}"), func(cfg *volume.Config) {
			cfg.Sources = eventful{Sources: cfg.Sources, looked: looked}
		})
		isLive = true
		change()
		pass(settling)
		n.wantBoth(r, strconv.Itoa(last), strconv.Itoa(last))
	})
}

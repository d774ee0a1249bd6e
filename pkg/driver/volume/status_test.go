package volume_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

var noToken access.Token

func allPods(api.Pod) bool { return true }

// only returns what is told of the one volume there is.
func (d *driver) only() statusz.Volume {
	d.n.Helper()
	all := d.Status(allPods)
	if len(all) != 1 {
		d.n.Fatalf("Status() = %d volumes, want one", len(all))
	}
	return all[0]
}

// version is what is told of the object as the cluster has it now.
func (n *node) version(ref api.Ref) *statusz.Version {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	c := n.cluster.objects[ref]
	return &statusz.Version{UID: c.UID, ResourceVersion: c.ResourceVersion}
}

// TestStatusTellsOfAVolume from its publish to a change.
func TestStatusTellsOfAVolume(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published(api.KeyItems, "[{key: a, path: a}]", api.KeyOnDelete, "Remove")
		first := d.only()
		want := statusz.Volume{
			ID: r.VolumeID, Pod: statusz.Pod{Namespace: "default", Name: "app", UID: "uid-app", ServiceAccount: "default"},
			Name: "config", TargetPath: r.TargetPath, UpdatePolicy: "Atomic", OnDelete: "Remove", State: statusz.Live, Bytes: 1,
			Sources: []statusz.Source{{
				Kind: "ConfigMap", Namespace: "default", Name: "web", Items: []statusz.Item{{Key: "a", Path: "a"}}, ReadBy: "driver",
				Synced: true, Found: true, Known: n.version(web), Projected: n.version(web),
			}},
		}
		times := cmpopts.IgnoreTypes(time.Time{})
		wantSame(n, "volume", want, first, times, cmpopts.IgnoreFields(statusz.Volume{}, "Digest"))
		if first.ProjectedAt.IsZero() || first.CheckedAt.IsZero() || first.Sources[0].ChangedAt.IsZero() || len(first.Digest) != 32 {
			n.Errorf("a time or the digest is missing: %+v", first)
		}
		n.set(web, "a", "22")
		second := d.only()
		want.Bytes, want.Sources[0].Known, want.Sources[0].Projected = 2, n.version(web), n.version(web)
		wantSame(n, "after a change", want, second, times, cmpopts.IgnoreFields(statusz.Volume{}, "Digest"))
		if second.Digest == first.Digest || !second.ProjectedAt.After(first.ProjectedAt) {
			n.Errorf("after a change digest = %s, projectedAt = %s, want others than %s, %s",
				second.Digest, second.ProjectedAt, first.Digest, first.ProjectedAt)
		}
		pass(2 * resyncInterval)
		if third := d.only(); third.ProjectedAt != second.ProjectedAt || !third.CheckedAt.After(second.CheckedAt) || third.Digest != second.Digest {
			n.Errorf("after a resync %+v, want only a later check than %+v", third, second)
		}
		if got := d.Status(func(p api.Pod) bool { return p.Name == "other" }); len(got) != 0 {
			n.Errorf("Status() of another pod = %v, want none", got)
		}
	})
}

// TestStatusAfterARestart: what is in the files is known once they have been looked at.
func TestStatusAfterARestart(t *testing.T) {
	bubble(t, func(n *node) {
		d, _ := n.published()
		d.stop()
		d = n.start()
		early := d.only()
		if early.State != statusz.Live || early.Digest != "" || !early.CheckedAt.IsZero() || early.Sources[0].Projected != nil || early.Sources[0].Synced {
			n.Errorf("before the first answer %+v, want nothing known of the files", early)
		}
		pass(settling)
		got := d.only()
		if got.Digest == "" || got.CheckedAt.IsZero() || !got.ProjectedAt.IsZero() {
			n.Errorf("after the first look %+v, want it checked and not written", got)
		}
		wantSame(n, "projected", n.version(web), got.Sources[0].Projected)
		if d.Recovered() != 1 {
			n.Errorf("Recovered() = %d, want 1", d.Recovered())
		}
	})
}

// TestStatusTellsOfTrouble: what is known and what is in the files differ, and since when.
func TestStatusTellsOfTrouble(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published(api.KeyItems, "[{key: a, path: a}]")
		before := n.version(web)
		pass(time.Hour)
		began := time.Now()
		n.cluster.set(web, "b", "1")
		pass(time.Hour)
		d.publish(r)
		got := d.only()
		want := &statusz.Problem{Kind: "Missing", Message: "configmap references non-existent config key: a", Since: began}
		wantSame(n, "problem", want, got.Problem)
		s := got.Sources[0]
		wantSame(n, "known and projected", []*statusz.Version{n.version(web), before}, []*statusz.Version{s.Known, s.Projected})
		if summary := d.Summary(); summary.NotCurrent[volume.Missing] != 1 || summary.Staleness != 0 {
			n.Errorf("Summary() = %+v, want one that misses something, and is in no other number", summary)
		}
		n.set(web, "a", "2")
		if got := d.only(); got.Problem != nil {
			n.Errorf("problem = %v, want none", got.Problem)
		}
		if summary := d.Summary(); summary.NotCurrent[volume.Missing] != 0 || summary.Staleness != 0 {
			n.Errorf("Summary() = %+v, want all well", summary)
		}
	})
}

// TestAnAPIServerThatIsAwayIsNoStaleness: nothing is known that is not in the files.
func TestAnAPIServerThatIsAwayIsNoStaleness(t *testing.T) {
	bubble(t, func(n *node) {
		d, _ := n.published()
		n.cluster.fail(web, errors.New("connection refused"))
		pass(time.Hour)
		if got := d.only(); got.Problem == nil || got.Problem.Kind != "NotReady" || got.Sources[0].Error != "connection refused" {
			n.Errorf("volume = %+v, want it told that its source cannot be read", got)
		}
		if summary := d.Summary(); summary.NotCurrent[volume.NotReady] != 1 || summary.Staleness != 0 {
			n.Errorf("Summary() = %+v, want one that is not ready and no staleness", summary)
		}
	})
}

// TestStatusOfAVolumeThatWaits says what for.
func TestStatusOfAVolumeThatWaits(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start()
		published := d.publishing(n.request("config", configMap("web")))
		pass(settling)
		got := d.only()
		if got.State != statusz.Publishing || got.Problem == nil || got.Problem.Kind != "Missing" || got.Problem.Message != `configmap "web" not found` {
			n.Errorf("volume = %+v, want it to wait for the ConfigMap", got)
		}
		if s := d.Summary(); s.NotCurrent[volume.Missing] != 0 || s.Staleness != 0 {
			n.Errorf("Summary() = %+v, want nothing: nobody has its files", s)
		}
		n.cluster.set(web, "a", "1")
		n.must(<-published)
	})
}

// TestAFrozenVolumeIsToldOnItsPod and in the status: an earlier version accepted what this one refuses.
func TestAFrozenVolumeIsToldOnItsPod(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		d.stop()
		r.Attributes["bogus"] = "1"
		n.must(n.records.Store.Put(r))
		d = n.start()
		d.publish(r)
		pass(2 * resyncInterval)
		told := n.seen.told()
		if len(told) != 1 || !strings.HasPrefix(told[0], `Frozen: volume "config": the files stay as they are until the pod is replaced: `) {
			n.Errorf("Events = %q, want one that says Frozen", told)
		}
		got := d.only()
		if got.State != statusz.Frozen || got.Problem == nil || got.Problem.Kind != "Invalid" || got.Problem.Since.IsZero() {
			n.Errorf("volume = %+v, want it frozen for its attributes", got)
		}
		if s := d.Summary(); s.Frozen != 1 || s.NotCurrent[volume.Invalid] != 1 || s.Staleness != 0 {
			n.Errorf("Summary() = %+v, want one frozen volume", s)
		}
	})
}

// TestAVolumeThatNeverUpdatesIsBehindNothing, although its source changes for others.
func TestAVolumeThatNeverUpdatesIsBehindNothing(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published(api.KeyUpdatePolicy, string(api.UpdateNever))
		other := n.request("other", configMap("web"))
		d.publish(other)
		n.cluster.set(web, "a", "2")
		pass(2 * resyncInterval)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantFiles(other, map[string]string{"a": "2"})
		if s := d.Summary(); s.Staleness != 0 || s.Frozen != 0 {
			n.Errorf("Summary() = %+v, want nothing", s)
		}
		if got := d.Status(allPods)[0]; got.State != statusz.Frozen || got.Problem != nil {
			n.Errorf("volume = %+v, want it frozen by its own choice", got)
		}
	})
}

// TestStatusDoesNotWaitForAStuckVolume, and tells what never changes of it.
func TestStatusDoesNotWaitForAStuckVolume(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		release := n.faults.hang("open")
		n.cluster.set(web, "a", "2")
		synctest.Wait()
		began := time.Now()
		got := d.only()
		if took := time.Since(began); took > time.Second {
			n.Errorf("Status() took %s, want a moment", took)
		}
		if got.State != statusz.Busy || got.TargetPath != r.TargetPath || got.Sources[0].Name != "web" || !got.Sources[0].Found {
			n.Errorf("volume = %+v, want a busy one", got)
		}
		n.cluster.set(web, "a", "3")
		pass(time.Minute)
		if s := d.Summary(); s.NotCurrent[volume.Busy] != 1 || s.Staleness < time.Minute || s.Staleness > time.Minute+time.Second {
			n.Errorf("Summary() = %+v, want one that is busy, and a change that has waited for a minute", s)
		}
		release()
		pass(settling)
		if got := d.only(); got.State != statusz.Live {
			n.Errorf("volume = %+v, want it live", got)
		}
	})
}

// TestDigestsAreOfOneRun: the digest of a short Secret would let whoever sees it try guesses.
func TestDigestsAreOfOneRun(t *testing.T) {
	bubble(t, func(n *node) {
		d, _ := n.published()
		d.publish(n.request("other", configMap("web")))
		all := d.Status(allPods)
		if all[0].Digest != all[1].Digest {
			n.Errorf("digests = %s, %s, want the same for the same files", all[0].Digest, all[1].Digest)
		}
		d = d.restart()
		if next := d.Status(allPods)[0].Digest; next == "" || next == all[0].Digest {
			n.Errorf("digest of the next run = %q, want another than %s", next, all[0].Digest)
		}
	})
}

// TestReachedTellsTheAgeOfChanges, and only where the object says when it was changed.
func TestReachedTellsTheAgeOfChanges(t *testing.T) {
	bubble(t, func(n *node) {
		n.published()
		at := time.Now()
		change := func(changed time.Time, value string) {
			n.cluster.change(web, func() {
				n.cluster.objects[web] = api.Content{
					Ref: web, UID: "uid-web", ResourceVersion: "at-" + value, ChangedAt: changed, Data: map[string][]byte{"a": []byte(value)},
				}
			})
			pass(settling)
		}
		change(at, "2")
		change(at, "3") // It was changed in a way that does not move the time.
		change(at.Add(-time.Hour), "4")
		n.seen.mu.Lock()
		defer n.seen.mu.Unlock()
		if len(n.seen.ages) != 1 || n.seen.ages[0] > settling {
			n.Errorf("ages = %v, want one of a moment", n.seen.ages)
		}
	})
}

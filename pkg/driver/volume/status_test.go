package volume_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

var noToken access.Token

func allPods(api.Pod) bool { return true }

// only returns the status of the one volume there is.
func (d *driver) only() statusz.Volume {
	d.n.Helper()
	all := d.Status(allPods)
	if len(all) != 1 {
		d.n.Fatalf("Status() = %d volumes, want one", len(all))
	}
	return all[0]
}

// version is the status of the object as the cluster has it now.
func (n *node) version(ref api.Ref) *statusz.Version {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	c := n.cluster.objects[ref]
	return &statusz.Version{UID: c.UID, ResourceVersion: c.ResourceVersion}
}

// TestStatusOfAVolume from its publish to a change.
func TestStatusOfAVolume(t *testing.T) {
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
		wantSame(n, "Status() of another pod", 0, len(d.Status(func(p api.Pod) bool { return p.Name == "other" })))
		// A reader of the status could find a short Secret by guesses if its digest were the same in each run.
		d.publish(n.request("other", r.Attributes))
		all := d.Status(allPods)
		wantSame(n, "the digest of the same files", second.Digest, all[0].Digest)
		wantSame(n, "the digest of the same files", second.Digest, all[1].Digest)
		if next := d.restart().Status(allPods)[0].Digest; next == "" || next == second.Digest {
			n.Errorf("digest of the next run = %q, want another than %s", next, second.Digest)
		}
	})
}

// TestReachedReturnsTheAgeOfChanges, and only where the object has the time of its change.
func TestReachedReturnsTheAgeOfChanges(t *testing.T) {
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

// stuckAfter is how long work takes until the driver reports it as stuck.
const stuckAfter = 2*time.Minute + 30*time.Second

// TestAStuckWorkerIsReported (fault 18): the node does not answer when a volume is opened. Running containers have its files, the
// kubelet's repeat succeeds at once, and condition and status show that the state is not known. After a while the driver is
// unhealthy, and reports for which volume and since when. When the node answers at last, the driver is healthy again.
func TestAStuckWorkerIsReported(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		resume := n.faults.hang("open")
		since := time.Now()
		n.set(web, "a", "2")
		began := time.Now()
		if !d.isVouchedFor(r) {
			n.Error("the kubelet is asked about a live volume")
		}
		n.must(d.Publish(n.ctx, r, noToken))
		wantSame(n, "the answers took", 0, time.Since(began))
		got := d.only()
		if took := time.Since(began); took > time.Second {
			n.Errorf("Status() took %s, want a moment", took)
		}
		if got.State != statusz.Busy || got.TargetPath != r.TargetPath || got.Sources[0].Name != "web" || !got.Sources[0].Found {
			n.Errorf("volume = %+v, want a busy one", got)
		}
		began = time.Now()
		n.wantProblem(r, "the volume is being worked on, and that takes long: whether its files are current is not known")
		if took := time.Since(began); took > settling {
			n.Errorf("the condition took %s, want a moment", took)
		}
		changed := time.Now()
		n.cluster.set(web, "a", "3")
		pass(time.Minute)
		n.must(d.Healthy())
		if s := d.Summary(); s.NotCurrent[volume.Busy] != 1 || s.Staleness < time.Since(changed)-time.Second || s.Staleness > time.Since(since) {
			n.Errorf("Summary() = %+v, want one that is busy, and a change that has waited for a minute", s)
		}
		pass(stuckAfter)
		d.wantStuck("volume csi-config has been worked on since " + since.UTC().Format(time.RFC3339))
		resume()
		pass(settling)
		n.must(d.Healthy())
		n.wantShown(r, map[string]string{"a": "3"}, "")
		wantSame(n, "state", statusz.Live, d.only().State)
	})
}

// TestAStuckRecoveryIsReported: the driver cannot even start.
func TestAStuckRecoveryIsReported(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		d.stop()
		resume := n.faults.hang("mounted")
		next := n.build()
		recovered := make(chan error, 1)
		go func() { recovered <- next.Recover(n.ctx) }()
		pass(stuckAfter)
		next.wantStuck("volume " + r.VolumeID + " has been worked on since ")
		if next.Ready() {
			n.Error("Ready() = true before the volumes are taken over")
		}
		resume()
		n.must(<-recovered)
		n.must(next.Healthy())
	})
}

// deadlocked is sources whose lock is never free again.
type deadlocked struct {
	volume.Sources
	gate chan struct{}
}

func (s deadlocked) Look(keys ...source.Key) []source.Snapshot {
	<-s.gate
	return s.Sources.Look(keys...)
}

// TestADeadlockOfTheSourcesIsReported although no volume is being worked on.
func TestADeadlockOfTheSourcesIsReported(t *testing.T) {
	bubble(t, func(n *node) {
		gate := make(chan struct{})
		d := n.start(func(cfg *volume.Config) { cfg.Sources = deadlocked{Sources: cfg.Sources, gate: gate} })
		pass(stuckAfter)
		d.wantStuck("a lock that all volumes need has not been free since ")
		close(gate)
		pass(settling)
		n.must(d.Healthy())
	})
}

// TestAStuckCallIsReported, but not one that waits for a source: the node does not come back from what a publish or an unpublish has
// asked it for.
func TestAStuckCallIsReported(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"put", "create", "publish", "unmount", "delete"} {
		bubbleCase(t, op, func(n *node) {
			d, r := n.ready()
			call := func() error { return d.Publish(n.ctx, r, noToken) }
			if op == "unmount" || op == "delete" {
				d.publish(r)
				call = func() error { return d.Unpublish(n.ctx, r.VolumeID, r.TargetPath) }
			}
			resume := n.faults.hang(op)
			done := make(chan error, 1)
			go func() { done <- call() }()
			pass(stuckAfter)
			d.wantStuck("volume " + r.VolumeID + " has been worked on since ")
			wantSame(n, "busy volumes, want none: nobody has the files", 0, d.Summary().NotCurrent[volume.Busy])
			resume()
			n.must(<-done)
			n.must(d.Healthy())
		})
	}
}

// TestWaitingForASourceIsNoIllHealth, however long a publish may.
func TestWaitingForASourceIsNoIllHealth(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start(func(cfg *volume.Config) { cfg.PublishTimeout = time.Hour })
		done := d.publishing(n.request("config", configMap("web")))
		pass(stuckAfter)
		n.must(d.Healthy())
		n.wantKind(<-done, volume.Missing)
	})
}

// TestOnlyLongWorkIsBusy: a summary has no time left for the volumes that come after one that is stuck.
func TestOnlyLongWorkIsBusy(t *testing.T) {
	bubble(t, func(n *node) {
		d, _ := n.published()
		n.cluster.set(tls, "key", "k1")
		d.publish(n.request("other", secret(tls)))
		resume := n.faults.hang("open")
		n.cluster.set(web, "a", "2")
		pass(time.Minute)
		n.cluster.set(tls, "key", "k2")
		synctest.Wait() // It is at work since a moment ago.
		wantSame(n, "busy volumes", 1, d.Summary().NotCurrent[volume.Busy])
		resume()
		pass(settling)
		wantSame(n, "busy volumes in the end", 0, d.Summary().NotCurrent[volume.Busy])
	})
}

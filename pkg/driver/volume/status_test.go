package volume_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
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

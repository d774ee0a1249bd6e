package volume_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestARestartFindsWhoShares by the mounts and the records, whether volumes may share from now on or
// not.
func TestARestartFindsWhoShares(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"and they go on": true, "and new ones are alone": false} {
		t.Run(name, func(t *testing.T) {
			bubbleShared(t, func(n *node) {
				n.cluster.set(web, "a", "1")
				d := n.start()
				all := d.replicas(3, configMap("web"))
				d.stop()
				n.shares = stays
				d = n.start()
				pass(settling)
				n.seen.forget()
				n.set(web, "a", "2")
				for _, r := range all {
					n.wantShown(r, map[string]string{"a": "2"}, "")
				}
				wantSame(n, "syncs that wrote", 1, n.seen.results()[volume.ResultWritten])
				newcomer := n.replica("newcomer", configMap("web"))
				d.publish(newcomer)
				if stays {
					n.wantShared(all[0], newcomer)
				} else {
					n.wantAlone(all[0], newcomer)
				}
			})
		})
	}
}

// TestVolumesOfAnOlderDriverStayAlone until they are published again. New ones join one of them.
func TestVolumesOfAnOlderDriverStayAlone(t *testing.T) {
	bubbleShared(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.shares = false
		d := n.start()
		all := d.replicas(2, configMap("web"))
		d.stop()
		n.shares = true
		d = n.start()
		pass(settling)
		newcomer := n.replica("newcomer", configMap("web"))
		d.publish(newcomer)
		n.set(web, "a", "2")
		for _, r := range append(all, newcomer) {
			n.wantFiles(r, map[string]string{"a": "2"})
		}
		n.wantAlone(all...)
		if m := n.mountOf(newcomer); !m.SharesFilesWith(n.mountOf(all[0])) && !m.SharesFilesWith(n.mountOf(all[1])) {
			n.Error("the new volume shares its files with none")
		}
		d.unpublish(all[0])
		d.unpublish(all[1])
		d.publish(all[0])
		n.wantShared(all[0], newcomer)
	})
}

// TestOtherReadersAfterARestart: where volumes share files and the driver chooses other identities now,
// all of them must be allowed to read.
func TestOtherReadersAfterARestart(t *testing.T) {
	bubbleShared(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		d := n.start()
		first, second := n.replica("first", configMap("web")), n.replica("second", configMap("web"))
		second.Pod.ServiceAccount = "other"
		d.publish(first)
		d.publish(second)
		n.wantShared(first, second)
		d.stop()
		n.maps = access.ByPod
		n.start()
		pass(settling)
		wantSame(n, "users of sources", map[api.Ref]int{web: 2}, n.cluster.users())
		n.set(web, "a", "2")
		n.wantFiles(first, map[string]string{"a": "2"})
		n.wantFiles(second, map[string]string{"a": "2"})
		n.cluster.failFor(access.Of(second.Pod), web, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, web.Name, errors.New("no")))
		n.set(web, "a", "3")
		n.wantFiles(first, map[string]string{"a": "2"})
		n.wantFiles(second, map[string]string{"a": "2"})
	})
}

// TestARecordOfOtherFilesIsFrozen: an earlier driver may have understood attributes in another way, by
// which the volume shares the files of one that asks for others now.
func TestARecordOfOtherFilesIsFrozen(t *testing.T) {
	bubbleShared(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		d := n.start()
		all := d.replicas(2, configMap("web"))
		d.stop()
		all[1].Attributes = configMap("web", api.KeyDefaultMode, "0600")
		n.must(n.records.Store.Put(all[1]))
		d = n.start()
		n.set(web, "a", "2")
		frozen := 0
		for _, r := range all {
			if problem, err := d.Condition(r.VolumeID, r.TargetPath); err == nil && problem != nil {
				frozen++
			}
		}
		if got := d.Summary().Frozen; got != 1 || frozen != 1 {
			n.Errorf("%d volumes are frozen, and %d say so, want one", got, frozen)
		}
		n.wantFiles(all[0], n.files(all[1].TargetPath)) // They are one file system still.
	})
}

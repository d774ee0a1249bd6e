package volume_test

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestARestartFindsWhoShares by the mounts and the records, whether volumes may share from now on or
// not.
func TestARestartFindsWhoShares(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"and they go on": true, "and new ones are alone": false} {
		bubbleSharedCase(t, name, func(n *node) {
			d, _ := n.ready()
			all := d.replicas(3, configMap("web"))
			d.stop()
			n.shares = stays
			d = n.start()
			pass(settling)
			n.seen.forget()
			n.set(web, "a", "2")
			n.wantEach(map[string]string{"a": "2"}, all...)
			wantSame(n, "syncs that wrote", 1, n.seen.results()[volume.ResultWritten])
			newcomer := n.replica("newcomer", configMap("web"))
			d.publish(newcomer)
			n.wantSharing(stays, all[0], newcomer)
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
		n.wantEach(map[string]string{"a": "2"}, append(all, newcomer)...)
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

// TestOtherReadersAfterARestart: pods of two service accounts share files, as they did with earlier
// versions of the driver. If their own identities read now, all of them must be allowed to.
func TestOtherReadersAfterARestart(t *testing.T) {
	bubbleShared(t, func(n *node) {
		d, _ := n.ready()
		first, second := n.replica("first", configMap("web")), n.replica("second", configMap("web"))
		d.publish(first)
		d.publish(second)
		n.wantShared(first, second)
		d.stop()
		second.Pod.ServiceAccount = "other"
		n.must(n.records.Store.Put(second))
		n.maps = identity.ByPod
		n.start()
		pass(settling)
		wantSame(n, "users of sources", map[api.Ref]int{web: 2}, n.cluster.users())
		n.set(web, "a", "2")
		n.wantFiles(first, map[string]string{"a": "2"})
		n.wantFiles(second, map[string]string{"a": "2"})
		n.cluster.failFor(identity.Of(second.Pod), web, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, web.Name, errors.New("no")))
		n.set(web, "a", "3")
		n.wantFiles(first, map[string]string{"a": "2"})
		n.wantFiles(second, map[string]string{"a": "2"})
	})
}

// TestARecordOfOtherFilesIsFrozen: an earlier driver may have understood attributes in another way, by
// which the volume shares the files of one that asks for others now.
func TestARecordOfOtherFilesIsFrozen(t *testing.T) {
	bubbleShared(t, func(n *node) {
		d, _ := n.ready()
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

// lost sets up a driver that knows nothing of volumes which share their files: the records are gone.
func (n *node) lost(count int) (d *driver, all []state.Record) {
	n.Helper()
	n.cluster.set(web, "a", "1")
	d = n.start()
	all = d.replicas(count, configMap("web"))
	d.stop()
	for _, r := range all {
		n.must(n.records.Store.Delete(r.VolumeID))
	}
	d = n.start()
	n.seen.forget()
	return d, all
}

// republish publishes volumes at the same moment, which must succeed.
func (d *driver) republish(all ...state.Record) {
	d.n.Helper()
	var wg sync.WaitGroup
	for _, r := range all {
		wg.Go(func() {
			if err := d.Publish(d.n.ctx, r, access.Token{}); err != nil {
				d.n.Errorf("Publish(%s) = %v, want nil", r.VolumeID, err)
			}
		})
	}
	wg.Wait()
}

// TestSharingVolumesWhoseRecordsAreLost come back at the same moment (fault 20): one projection writes
// their files.
func TestSharingVolumesWhoseRecordsAreLost(t *testing.T) {
	t.Parallel()
	for round := range 20 { // What happens first differs.
		bubbleSharedCase(t, fmt.Sprint(round), func(n *node) {
			const count = 4
			d, all := n.lost(count)
			var together sync.WaitGroup
			together.Add(count)
			n.faults.on("find", func() {
				together.Done()
				together.Wait()
			})
			d.republish(all...)
			n.faults.on("find", nil)
			pass(settling)
			wantSame(n, "users of sources", map[api.Ref]int{web: 1}, n.cluster.users())
			n.set(web, "a", "2")
			wantSame(n, "syncs that wrote", 1, n.seen.results()[volume.ResultWritten])
			n.wantEach(map[string]string{"a": "2"}, all...)
			n.wantRecords(all...)
		})
	}
}

// TestAVolumeThatMayShareDoesNotSync before it has joined the one that has its files, although its
// source changes and can be read.
func TestAVolumeThatMayShareDoesNotSync(t *testing.T) {
	bubbleShared(t, func(n *node) {
		d, all := n.lost(2)
		d.republish(all[0])
		pass(settling)
		n.seen.forget()
		n.faults.on("find", func() {
			n.cluster.set(web, "a", "2")
			<-time.After(latency)
		})
		d.republish(all[1])
		n.faults.on("find", nil)
		wantSame(n, "syncs that wrote", 1, n.seen.results()[volume.ResultWritten])
		n.wantFiles(all[1], map[string]string{"a": "2"})
	})
}

// TestAVolumeThatMayShareWaitsForTheNode, if that does not know which file system a volume has (fault 20):
// only one of them may write, and none is known to be the one.
func TestAVolumeThatMayShareWaitsForTheNode(t *testing.T) {
	bubbleShared(t, func(n *node) {
		d, _ := n.ready()
		all := d.replicas(2, configMap("web"))
		d.stop()
		n.faults.set("find", syscall.EMFILE)
		n.seen.forget()
		d = n.start()
		n.set(web, "a", "2")
		wantSame(n, "syncs meanwhile", 0, len(n.seen.outcomes()))
		for _, r := range all {
			n.wantProblem(r, "look for volume at "+r.TargetPath+": too many open files")
		}
		n.faults.set("find", nil)
		pass(time.Minute)
		wantSame(n, "syncs that wrote", 1, n.seen.results()[volume.ResultWritten])
		for _, r := range all {
			n.wantShown(r, map[string]string{"a": "2"}, "")
			d.unpublish(r)
		}
	})
}

// TestAnotherVolumeHangs while one whose record is lost comes back.
func TestAnotherVolumeHangs(t *testing.T) {
	bubbleShared(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "a", "1")
		d := n.start()
		hung, r := n.replica("hung", configMap("web")), n.replica("lost", map[string]string{api.KeySecret: tls.Name})
		d.publish(hung)
		d.publish(r)
		d.stop()
		n.must(n.records.Store.Delete(r.VolumeID))
		d = n.start()
		pass(settling)
		resume := n.faults.hang("open")
		n.set(web, "a", "2")
		defer time.AfterFunc(time.Minute, resume).Stop()
		began := time.Now()
		d.republish(r)
		wantSame(n, "time that the publish took", 0, time.Since(began))
		resume()
		pass(settling)
		n.wantFiles(hung, map[string]string{"a": "2"})
	})
}

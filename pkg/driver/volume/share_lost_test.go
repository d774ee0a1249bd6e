package volume_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

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
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			bubbleShared(t, func(n *node) {
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
				for _, r := range all {
					n.wantShown(r, map[string]string{"a": "2"}, "")
				}
				n.wantRecords(all...)
			})
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

// TestAVolumeThatMayShareWaitsForTheNode, if that cannot say which file system a volume has (fault 20):
// only one of them may write, and none is known to be the one.
func TestAVolumeThatMayShareWaitsForTheNode(t *testing.T) {
	bubbleShared(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		d := n.start()
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
		release := n.faults.hang("open")
		n.set(web, "a", "2")
		defer time.AfterFunc(time.Minute, release).Stop()
		began := time.Now()
		d.republish(r)
		wantSame(n, "time that the publish took", 0, time.Since(began))
		release()
		pass(settling)
		n.wantFiles(hung, map[string]string{"a": "2"})
	})
}

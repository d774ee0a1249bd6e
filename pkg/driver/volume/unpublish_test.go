package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestUnpublishesAtOnce of volumes that are there, and of those that are not (fault 13): each ends in nil, or is refused because
// of one that is under way. The mount alone is enough, and so is the record.
func TestUnpublishesAtOnce(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*node, *driver, state.Record) *driver{
		"published": func(_ *node, d *driver, _ state.Record) *driver { return d },
		"never published": func(_ *node, d *driver, r state.Record) *driver {
			d.unpublish(r)
			return d.restart()
		},
		"its record lost": func(n *node, d *driver, r state.Record) *driver {
			n.must(n.records.Store.Delete(r.VolumeID))
			return d.restart()
		},
		"unmounted": func(n *node, d *driver, r state.Record) *driver {
			n.must(n.mounts.Unmount(r.TargetPath))
			return d
		},
		"its target gone": func(n *node, d *driver, r state.Record) *driver {
			n.must(n.mounts.Unmount(r.TargetPath))
			n.must(os.RemoveAll(filepath.Join(n.dir, "pods")))
			return d
		},
	} {
		bubbleCase(t, name, func(n *node) {
			d, r := n.published()
			d = prepare(n, d, r)
			answers := make(chan error, 16)
			for range cap(answers) {
				go func() { answers <- d.Unpublish(n.ctx, r.VolumeID, r.TargetPath) }()
			}
			for range cap(answers) {
				if err := <-answers; err != nil {
					n.wantKind(err, volume.Busy)
				}
			}
			d.unpublish(r)
			n.wantNothing(d)
		})
	}
}

// TestUnpublishEndsTheUseOfTheSources is fault 31.
func TestUnpublishEndsTheUseOfTheSources(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		d.unpublish(r)
		n.seen.forget()
		n.faults.forget()
		n.cluster.set(web, "a", "2")
		d.Changed(keyOf(web)) // A change that was on its way.
		pass(2 * resyncInterval)
		if got := n.faults.order(); len(got) != 0 {
			n.Errorf("side effects = %v, want none", got)
		}
		if got := n.seen.outcomes(); len(got) != 0 {
			n.Errorf("syncs = %v, want none", got)
		}
		_, err := d.Condition(r.VolumeID, r.TargetPath)
		n.wantKind(err, volume.Unknown)
	})
}

// TestUnpublishWaitsForAnUpdate: the files are not taken away from under a writer, and not brought back by it.
// This is fault 13.
func TestUnpublishWaitsForAnUpdate(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		ended := make(chan error, 1)
		n.faults.on("open", func() {
			go func() { ended <- d.Unpublish(n.ctx, r.VolumeID, r.TargetPath) }()
		})
		n.faults.forget()
		n.cluster.set(web, "a", "2")
		n.must(<-ended)
		pass(settling)
		n.wantNothing(d)
		wantSame(n, "side effects", []string{"open", "unmount", "delete"}, n.faults.order())
		if got := n.seen.results(); got[volume.ResultWritten] != 1 || got[volume.ResultFailed] != 0 {
			n.Errorf("syncs = %v, want the one write", got)
		}
	})
}

// TestUnpublishOverAQueuedUpdate: the update finds nothing to do. This is fault 13.
func TestUnpublishOverAQueuedUpdate(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		n.faults.on("unmount", func() {
			n.cluster.set(web, "a", "2")
			d.Changed(keyOf(web))
		})
		d.unpublish(r)
		pass(settling)
	})
}

// TestUnpublishOnAnotherTarget: both are cleared, the one on record and the one asked for.
func TestUnpublishOnAnotherTarget(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		other := n.request("other", nil)
		if err := d.Unpublish(n.ctx, r.VolumeID, other.TargetPath); err != nil {
			n.Errorf("Unpublish() = %v, want nil", err)
		}
		n.wantNothing(d)

		d.publish(r)
		n.faults.set("unmount", syscall.EBUSY)
		n.wantKind(d.Unpublish(n.ctx, r.VolumeID, other.TargetPath), volume.IO)
		n.faults.set("unmount", nil)
		if err := d.Unpublish(n.ctx, r.VolumeID, other.TargetPath); err != nil {
			n.Errorf("second Unpublish() = %v, want nil", err)
		}
	})
}

// TestFailingUnpublishIsRepeated: the kubelet tries until it succeeds, and then nothing is left.
func TestFailingUnpublishIsRepeated(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"unmount", "delete"} {
		bubbleCase(t, op, func(n *node) {
			d, r := n.published()
			n.faults.set(op, syscall.EBUSY)
			for range 2 {
				err := d.Unpublish(n.ctx, r.VolumeID, r.TargetPath)
				n.wantKind(err, volume.IO)
				if !errors.Is(err, syscall.EBUSY) {
					n.Errorf("Unpublish() = %v, want it to wrap %v", err, syscall.EBUSY)
				}
			}
			n.wantRecords(r)
			d = d.restart() // Even over a restart.
			n.faults.set(op, nil)
			d.unpublish(r)
		})
	}
}

// TestPublishAfterAFailedUnpublish: a pod may come back before its volume is gone.
func TestPublishAfterAFailedUnpublish(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		n.faults.set("unmount", syscall.EBUSY)
		n.wantKind(d.Unpublish(n.ctx, r.VolumeID, r.TargetPath), volume.IO)
		n.faults.set("unmount", nil)
		n.cluster.set(web, "a", "2")
		d.publish(r)
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "2"})
		wantSame(n, "users of sources", map[api.Ref]int{web: 1}, n.cluster.users())
		d.unpublish(r)
	})
}

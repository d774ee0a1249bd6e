package volume_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// on returns a request for another volume on the target of r.
func (n *node) on(r state.Record, name string) state.Record {
	n.Helper()
	other := n.request(name, configMap("other"))
	other.TargetPath = r.TargetPath
	return other
}

// TestATargetIsOneVolumes, from when the first one waits for its source on.
func TestATargetIsOneVolumes(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(other, "a", "other")
		d := n.start()
		r := n.request("config", configMap("web"))
		done := d.publishing(r)
		pass(settling)
		intruder := n.on(r, "intruder")
		d.wantRefused(intruder, volume.Different)
		n.cluster.set(web, "a", "1")
		n.must(<-done)
		for range 2 {
			got := n.wantKind(d.Publish(n.ctx, intruder, access.NewToken("x", time.Now())), volume.Different)
			wantSame(n, "Publish() says", "volume csi-config is already published on "+r.TargetPath, got)
			if got := n.tokens.of(intruder.VolumeID); !got.IsZero() {
				n.Errorf("%v is held for a volume that was refused", got)
			}
			d.unpublish(intruder) // Whatever is asked about it, the first one's target is not touched.
		}
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantRecords(r)
		n.wantUpdate(r, "2")
	})
}

// TestAMountThatIsNotOursStays: somebody mounts something on the target while the volume is being made.
func TestAMountThatIsNotOursStays(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.faults.set("publish", volumefs.ErrMounted)
		d := n.start()
		d.wantRefused(n.request("config", configMap("web")), volume.IO)
		wantSame(n, "unmounted times", 0, n.faults.count("unmount"))
	})
}

func TestTwoRecordsOfOneTarget(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		intruder := n.on(r, "intruder")
		n.must(n.records.Store.Put(intruder))
		d = d.restart()
		wantSame(n, "Volumes()", 1, d.Volumes())
		n.wantFiles(r, map[string]string{"a": "1"})
		d.unpublish(intruder)
	})
}

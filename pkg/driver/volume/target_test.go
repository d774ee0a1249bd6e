package volume_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
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

func TestATargetIsOneVolumes(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		n.cluster.set(api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "other"}, "a", "other")
		other := n.on(r, "intruder")
		for range 2 {
			got := n.wantKind(d.Publish(n.ctx, other, access.NewToken("x", time.Now())), volume.Different)
			if want := "volume csi-config is already published on " + r.TargetPath; got != want {
				n.Errorf("Publish() says %q, want %q", got, want)
			}
			if got := n.tokens.of(other.VolumeID); !got.IsZero() {
				n.Errorf("%v is held for a volume that was refused", got)
			}
			d.unpublish(other) // Whatever is asked about it, the first one's target is not touched.
		}
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantRecords(r)
		n.wantUpdate(r, "2")
	})
}

// TestATargetIsOneVolumesFromTheStart has the second one come while the first one waits for its source.
func TestATargetIsOneVolumesFromTheStart(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "other"}, "a", "other")
		d := n.start()
		r := n.request("config", configMap("web"))
		done := d.publishing(r)
		pass(settling)
		d.wantRefused(n.on(r, "intruder"), volume.Different)
		n.cluster.set(web, "a", "1")
		n.must(<-done)
		n.wantFiles(r, map[string]string{"a": "1"})
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

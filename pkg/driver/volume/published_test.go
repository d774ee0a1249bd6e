package volume_test

import (
	"syscall"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestPublished has what may have become of a volume that was live.
func TestPublished(t *testing.T) {
	t.Parallel()
	elsewhere := func(r state.Record) state.Record { r.TargetPath += "2"; return r }
	unknown := func(r state.Record) state.Record { r.VolumeID += "2"; return r }
	as := func(r state.Record) state.Record { return r }
	tests := map[string]struct {
		happen func(n *node, d *driver, r state.Record) *driver // Nil for nothing.
		ask    func(state.Record) state.Record
		want   bool
	}{
		"live":                   {nil, as, true},
		"live on another target": {nil, elsewhere, false},
		"live beside another": {func(n *node, d *driver, _ state.Record) *driver {
			d.publish(n.request("other", configMap("web")))
			return d
		}, as, true},
		"live, and another on the target": {func(n *node, d *driver, r state.Record) *driver {
			other := r
			other.VolumeID, other.TargetPath = unknown(r).VolumeID, n.request("other", nil).TargetPath
			d.publish(other)
			return d
		}, unknown, false},
		"unknown": {nil, unknown, false},
		"unknown, and the node cannot tell": {
			func(n *node, d *driver, _ state.Record) *driver { n.faults.set("mounted", syscall.EMFILE); return d }, unknown, false,
		},
		"live, and the node cannot tell": {
			func(n *node, d *driver, _ state.Record) *driver { n.faults.set("mounted", syscall.EMFILE); return d }, as, true,
		},
		"live, and its source is gone": {
			func(n *node, d *driver, _ state.Record) *driver { n.cluster.remove(web); return d }, as, true,
		},
		"taken over by the next run": {
			func(_ *node, d *driver, _ state.Record) *driver { return d.restart() }, as, true,
		},
		"taken over although it cannot be updated any more": {
			func(n *node, d *driver, _ state.Record) *driver { n.cluster.refused[web] = true; return d.restart() }, as, true,
		},
		"mounted, but its record was lost": {
			func(n *node, d *driver, r state.Record) *driver {
				d.stop()
				n.must(n.records.Delete(r.VolumeID))
				return n.start()
			}, as, true,
		},
		"unmounted behind the manager's back": {
			func(n *node, d *driver, r state.Record) *driver {
				n.must(n.mounts.Unmount(r.TargetPath))
				return d
			}, as, false,
		},
		"unpublished": {
			func(_ *node, d *driver, r state.Record) *driver { d.unpublish(r); return d }, as, false,
		},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			d, r := n.published()
			if tt.happen != nil {
				d = tt.happen(n, d, r)
			}
			pass(settling)
			ask := tt.ask(r)
			if got := d.Published(ask.VolumeID, ask.TargetPath); got != tt.want {
				n.Errorf("Published(%s, %s) = %t, want %t", ask.VolumeID, ask.TargetPath, got, tt.want)
			}
		})
	}
}

// TestAVolumeOnItsWayIsNotPublished: neither while its publish waits, nor while the files are made, nor after it has failed. To ask
// does not wait for the publish.
func TestAVolumeOnItsWayIsNotPublished(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start()
		r := n.request("config", configMap("web"))
		check := func(want bool, when string) {
			n.Helper()
			if got := d.Published(r.VolumeID, r.TargetPath); got != want {
				n.Errorf("Published() = %t %s, want %t", got, when, want)
			}
		}
		check(false, "at first")
		done := d.publishing(r)
		pass(settling)
		check(false, "while its source is waited for")
		n.faults.set("mounted", syscall.EMFILE)
		check(false, "while its source is waited for and the node cannot tell")
		n.faults.set("mounted", nil)
		n.wantKind(<-done, volume.Missing)
		check(false, "after a publish that failed")
		n.cluster.set(web, "a", "1")
		n.faults.on("put", func() { check(false, "before the files are made") })
		d.publish(r)
		check(true, "after a publish")
	})
}

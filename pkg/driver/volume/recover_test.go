package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestRestartGoesOn: the next run of the driver brings what changed while none ran, and later changes. What is in the files
// is known once they have been looked at.
func TestRestartGoesOn(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		d.stop()
		d = n.start()
		early := d.only() // The cluster has not answered yet.
		if early.State != statusz.Live || early.Digest != "" || !early.CheckedAt.IsZero() || early.Sources[0].Projected != nil || early.Sources[0].Synced {
			n.Errorf("before the first answer %+v, want nothing known of the files", early)
		}
		pass(settling)
		got := d.only()
		if got.Digest == "" || got.CheckedAt.IsZero() || !got.ProjectedAt.IsZero() {
			n.Errorf("after the first look %+v, want it checked and not written", got)
		}
		wantSame(n, "projected", n.version(web), got.Sources[0].Projected)
		wantSame(n, "Recovered()", 1, d.Recovered())
		d.stop()
		n.cluster.set(web, "a", "2")
		d = n.start()
		n.wantFiles(r, map[string]string{"a": "1"})
		wantSame(n, "Volumes()", 1, d.Volumes())
		pass(latency)
		n.wantFiles(r, map[string]string{"a": "2"})
		pass(settling)
		n.wantUpdate(r, "3")
		wantSame(n, "failed, want 0: to wait for the first answer is no failure", 0, n.seen.results()[volume.ResultFailed])
	})
}

// TestRecordWithoutAMountIsDropped: the node was restarted, with the records or without, or the driver killed before the volume
// was visible. Volumes are unpublished as if they had been there, and published again with what their sources hold by then.
// These are faults 13, 20 and 21.
func TestRecordWithoutAMountIsDropped(t *testing.T) {
	t.Parallel()
	for name, isStateLost := range map[string]bool{"the records are there": false, "nothing is there": true} {
		bubbleCase(t, name, func(n *node) {
			d, r := n.published()
			gone := n.request("gone", configMap("web"))
			d.publish(gone)
			d.stop()
			n.must(n.mounts.Unmount(r.TargetPath))
			n.must(n.mounts.Unmount(gone.TargetPath))
			if isStateLost {
				n.must(n.records.Store.Delete(r.VolumeID))
				n.must(n.records.Store.Delete(gone.VolumeID))
			}
			n.cluster.set(web, "a", "2")
			d = n.start()
			n.wantNothing(d)
			d.unpublish(gone)
			n.wantNothing(d)
			d.publish(r)
			n.wantFiles(r, map[string]string{"a": "2"})
			n.wantRecords(r)
			n.wantUpdate(r, "3")
		})
	}
}

// TestKilledDuringPublish kills the driver before each side effect of a publish, of a first volume and of one that joins
// another. The next run removes the record and finds no other left-over, the other volume stays as it was, and the kubelet's
// next attempt succeeds. This is fault 15.
func TestKilledDuringPublish(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"put", "create", "publish", "share"} {
		bubbleCase(t, op, func(n *node) {
			if op == "share" && !n.shares {
				return
			}
			d, old := n.published(api.KeyDefaultMode, "0640")
			r := n.replica("newcomer", configMap("web"))
			if op == "share" {
				r.Attributes = old.Attributes
			}
			killed := errors.New("killed")
			// What the driver would do to clean up, or instead, fails as well: it is not there to do so.
			for _, dead := range []string{op, "unmount", "delete"} {
				n.faults.set(dead, killed)
			}
			if op == "share" {
				n.faults.set("create", killed)
			}
			if err := d.Publish(n.ctx, r, noToken); !errors.Is(err, killed) {
				n.Fatalf("Publish() = %v, want %v", err, killed)
			}
			d.stop()
			n.faults.mend()
			d = n.start()
			n.wantRecords(old)
			n.wantFiles(r, nil)
			wantSame(n, "Volumes()", 1, d.Volumes())
			wantSame(n, "users of sources", map[api.Ref]int{web: 1}, n.cluster.users())
			d.publish(r)
			n.wantFiles(r, map[string]string{"a": "1"})
			n.wantRecords(old, r)
			if op == "share" {
				n.wantShared(old, r)
			}
		})
	}
}

// TestUnreadableRecordIsReported: it stays, and is in no other volume's way. The kubelet's repeat takes its volume over as it is,
// and from then on all is as if nothing had been. These are faults 19 and 20.
func TestUnreadableRecordIsReported(t *testing.T) {
	t.Parallel()
	damages := map[string]func(whole []byte) []byte{
		"torn":             func(whole []byte) []byte { return whole[:len(whole)/2] },
		"empty":            func([]byte) []byte { return nil },
		"no JSON":          func([]byte) []byte { return make([]byte, 512) },
		"another volume's": func([]byte) []byte { return []byte(`{"schemaVersion": 1, "volumeID": "x"}`) },
	}
	for name, damage := range damages {
		bubbleCase(t, name, func(n *node) {
			d, r := n.published()
			torn := n.request("torn", configMap("web", api.KeyUID, "0")) // It shares its files with none.
			d.publish(torn)
			generation := n.generation(torn)
			d.stop()
			names, err := filepath.Glob(filepath.Join(n.dir, "state", "volumes", "*.json"))
			if err != nil || len(names) != 2 {
				n.Fatalf("records = %v, %v, want two", names, err)
			}
			for _, name := range names {
				data, err := os.ReadFile(name)
				n.must(err)
				if strings.Contains(string(data), torn.VolumeID) {
					n.must(os.WriteFile(name, damage(data), 0o600))
				}
			}
			next := n.build()
			if next.Ready() {
				n.Error("Ready() = true before Recover, want false")
			}
			if err := next.Recover(n.ctx); err == nil {
				n.Error("Recover() = nil, want the unreadable record")
			}
			if !next.Ready() {
				n.Error("Ready() = false after Recover, want true")
			}
			next.run()
			next.publish(torn) // The kubelet's repeat heals it.
			pass(settling)
			wantSame(n, "generation: the files were right", generation, n.generation(torn))
			n.wantRecords(r, torn)
			for _, a := range []string{"2", "3"} {
				n.wantUpdate(r, a)
				n.wantFiles(torn, map[string]string{"a": a})
				next = next.restart()
			}
		})
	}
}

// TestVolumeThatCannotBeUpdatedAnyMoreStays has live volumes that this run of the driver would refuse. The pod, the status and
// the log report that.
func TestVolumeThatCannotBeUpdatedAnyMoreStays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(n *node, r *state.Record)
		kind    volume.Kind
		problem string // A part.
	}{
		"its attributes do not parse": {
			change: func(_ *node, r *state.Record) { r.Attributes = configMap("web", "later", "1") },
			kind:   volume.Invalid, problem: "later",
		},
		"its source cannot be watched": {
			change: func(n *node, _ *state.Record) { n.cluster.refused[web] = true },
			kind:   volume.IO, problem: "watch the sources: permission denied",
		},
		"one of its sources cannot be watched": {
			change: func(n *node, r *state.Record) {
				n.cluster.refused[tls] = true
				r.Attributes = sources("{configMap: {name: web}}, {secret: {name: tls, optional: true}}")
			},
			kind: volume.IO, problem: "watch the sources: permission denied",
		},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			d, r := n.published()
			d.stop()
			tt.change(n, &r)
			n.must(n.records.Store.Put(r))
			d = n.start()
			d.publish(r)
			n.cluster.set(web, "a", "2")
			pass(2 * resyncInterval)
			n.wantFiles(r, map[string]string{"a": "1"})
			n.wantRecords(r)
			n.wantReportedOnce(`Frozen: volume "config": the files stay as they are until the pod is replaced: `)
			got := d.only()
			if got.State != statusz.Frozen || got.Problem == nil || got.Problem.Kind != string(tt.kind) || got.Problem.Since.IsZero() {
				n.Fatalf("volume = %+v, want it frozen", got)
			}
			n.wantProblem(r, got.Problem.Message)
			if !strings.Contains(got.Problem.Message, tt.problem) {
				n.Errorf("problem = %q, want one that contains %q", got.Problem.Message, tt.problem)
			}
			if s := d.Summary(); s.Frozen != 1 || s.NotCurrent[tt.kind] != 1 || s.Staleness != 0 {
				n.Errorf("Summary() = %+v, want one frozen volume", s)
			}
			if !strings.Contains(n.logs.String(), "The driver no longer updates a live volume") {
				n.Error("the log says nothing of it")
			}
			n.wantNoUsers()
		})
	}
}

// TestAVolumeThatIsCoveredIsTakenOver: somebody has mounted something on its target. It is not given up, is in no other volume's
// way, and goes on when that is away, without a repeat (fault 20).
func TestAVolumeThatIsCoveredIsTakenOver(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		other := n.request("other", configMap("web", api.KeyUID, "0")) // It shares its files with none.
		d.publish(other)
		d.stop()
		n.must(unix.Mount("cover", r.TargetPath, "tmpfs", 0, "size=4k"))
		n.cluster.set(web, "a", "2")
		d = n.start()
		pass(settling)
		n.wantFiles(other, map[string]string{"a": "2"})
		wantSame(n, "Volumes()", 2, d.Volumes())
		n.must(unix.Unmount(r.TargetPath, unix.MNT_DETACH))
		pass(resyncInterval)
		n.wantFiles(r, map[string]string{"a": "2"})
		wantSame(n, "mounts on the target", []string{r.TargetPath}, n.mountPoints(r.TargetPath))
	})
}

// TestAVolumeThatTheNodeCannotFindIsTakenOver: the node cannot see what is mounted, and then no record may be the price
// (fault 20). What is found out later counts.
func TestAVolumeThatTheNodeCannotFindIsTakenOver(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		d.stop()
		n.faults.set("mounted", syscall.EMFILE)
		n.faults.set("open", syscall.EMFILE)
		n.cluster.set(web, "a", "2")
		n.start()
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantRecords(r)
		n.wantProblem(r, "open volume at "+r.TargetPath+": too many open files")
		n.faults.set("mounted", nil)
		n.faults.set("open", nil)
		pass(resyncInterval)
		n.wantFiles(r, map[string]string{"a": "2"})
		wantSame(n, "users of sources", map[api.Ref]int{web: 1}, n.cluster.users())
	})
}

// TestAVolumeThatIsTakenOverAndNotThere is the other way round: there is nothing after all, and a repeat makes it again.
func TestAVolumeThatIsTakenOverAndNotThere(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		d.stop()
		n.must(n.mounts.Unmount(r.TargetPath))
		n.faults.set("mounted", syscall.EMFILE)
		d = n.start()
		n.faults.set("mounted", nil)
		pass(settling)
		d.publish(r)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantRecords(r)
	})
}

// TestARecordOfALaterSchemaOutlivesARepeat: the volume is taken over by the driver that cannot read it, and what the newer
// one has written is there for it when it comes back, token and all (fault 20).
func TestARecordOfALaterSchemaOutlivesARepeat(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		n.tokens.held = map[string]access.Token{r.VolumeID: {}, "gone": {}}
		d.stop()
		names, err := filepath.Glob(filepath.Join(n.dir, "state", "volumes", "*.json"))
		if err != nil || len(names) != 1 {
			n.Fatalf("records = %v, %v, want one", names, err)
		}
		const later = `{"schemaVersion": 2, "what": "nobody knows yet"}`
		n.must(os.WriteFile(names[0], []byte(later), 0o600))
		for range 2 {
			d = n.build()
			if err := d.Recover(n.ctx); err == nil || !strings.Contains(err.Error(), "schema version 2") {
				n.Errorf("Recover() = %v, want the record that is not read", err)
			}
			d.run()
			if _, held := n.tokens.held[r.VolumeID]; !held || len(n.tokens.held) != 1 {
				n.Errorf("tokens are held for %v, want for %s alone", n.tokens.held, r.VolumeID)
			}
			d.publish(r)
			pass(settling)
			n.wantFiles(r, map[string]string{"a": "1"})
			if got, err := os.ReadFile(names[0]); string(got) != later || err != nil {
				n.Errorf("the record is %q, %v, want it untouched", got, err)
			}
			d.stop()
		}
		d = n.build()
		d.run()
	})
}

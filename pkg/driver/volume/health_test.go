package volume_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// stuckAfter is when work that does not end is told.
const stuckAfter = 2*time.Minute + 30*time.Second

// TestAStuckWorkerIsTold, with the volume and since when: the node does not answer when a volume is opened (fault 18). When it
// answers at last, all is well.
func TestAStuckWorkerIsTold(t *testing.T) {
	bubble(t, func(n *node) {
		d, _ := n.published()
		release := n.faults.hang("open")
		since := time.Now()
		n.cluster.set(web, "a", "2")
		pass(time.Minute)
		n.must(d.Healthy())
		pass(stuckAfter)
		want := "volume csi-config has been worked on since " + since.UTC().Format(time.RFC3339)
		if err := d.Healthy(); err == nil || err.Error() != want {
			n.Errorf("Healthy() = %v, want %s", err, want)
		}
		release()
		pass(settling)
		n.must(d.Healthy())
	})
}

// TestStuckRecoveryIsTold: the driver cannot even start.
func TestStuckRecoveryIsTold(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		d.stop()
		release := n.faults.hang("mounted")
		next := n.build()
		recovered := make(chan error, 1)
		go func() { recovered <- next.Recover(n.ctx) }()
		pass(stuckAfter)
		next.wantStuck("volume " + r.VolumeID + " has been worked on since ")
		if next.Ready() {
			n.Error("Ready() = true before the volumes are taken over")
		}
		release()
		n.must(<-recovered)
		n.must(next.Healthy())
	})
}

// deadlocked is sources whose lock is never free again.
type deadlocked struct {
	volume.Sources
	gate chan struct{}
}

func (s deadlocked) Get(key source.Key) source.Snapshot {
	<-s.gate
	return s.Sources.Get(key)
}

// TestADeadlockOfTheSourcesIsTold although no volume is being worked on.
func TestADeadlockOfTheSourcesIsTold(t *testing.T) {
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

// TestTroubleIsNoIllHealth: an API server that is away and a node that refuses to write are not mended by a restart.
func TestTroubleIsNoIllHealth(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*node){
		"the API server is away": func(n *node) { n.cluster.fail(web, errors.New("connection refused")) },
		"the node cannot write":  func(n *node) { n.faults.set("open", errors.New("input/output error")) },
		"an object is gone":      func(n *node) { n.cluster.remove(web) },
		"nothing":                func(*node) {},
	}
	for name, begin := range tests {
		bubbleCase(t, name, func(n *node) {
			d, r := n.published()
			begin(n)
			for range 10 {
				d.publish(r)
				pass(time.Hour)
				n.must(d.Healthy())
			}
		})
	}
}

// TestAStuckCallIsTold, but not one that waits for a source: the node does not come back from what a publish or an unpublish has
// asked it for.
func TestAStuckCallIsTold(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"put", "create", "publish", "unmount", "delete"} {
		bubbleCase(t, op, func(n *node) {
			d, r := n.ready()
			call := func() error { return d.Publish(n.ctx, r, noToken) }
			if op == "unmount" || op == "delete" {
				d.publish(r)
				call = func() error { return d.Unpublish(n.ctx, r.VolumeID, r.TargetPath) }
			}
			release := n.faults.hang(op)
			done := make(chan error, 1)
			go func() { done <- call() }()
			pass(stuckAfter)
			d.wantStuck("volume " + r.VolumeID + " has been worked on since ")
			if s := d.Summary(); s.NotCurrent[volume.Busy] != 0 {
				n.Errorf("Summary() = %+v, want none that is busy: nobody has the files", s)
			}
			release()
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

// TestAStuckVolumeAnswers: running containers have its files. The kubelet's repeat succeeds at once, and who asks for the
// condition is told that it is not known.
func TestAStuckVolumeAnswers(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		release := n.faults.hang("open")
		n.set(web, "a", "2")
		began := time.Now()
		if !d.Published(r.VolumeID, r.TargetPath) {
			n.Error("Published() = false, want true")
		}
		if err := d.Publish(n.ctx, r, noToken); err != nil {
			n.Errorf("Publish() = %v, want nil", err)
		}
		if took := time.Since(began); took != 0 {
			n.Errorf("the answers took %s, want no time", took)
		}
		n.wantProblem(r, "the volume is being worked on, and that takes long: whether its files are current is not known")
		if took := time.Since(began); took > settling {
			n.Errorf("the condition took %s, want a moment", took)
		}
		release()
		pass(settling)
		n.wantShown(r, map[string]string{"a": "2"}, "")
	})
}

// TestOnlyLongWorkIsBusy: a summary has no time left for the volumes that come after one that is stuck.
func TestOnlyLongWorkIsBusy(t *testing.T) {
	bubble(t, func(n *node) {
		d, _ := n.published()
		n.cluster.set(tls, "key", "k1")
		d.publish(n.request("other", secret(tls)))
		release := n.faults.hang("open")
		n.cluster.set(web, "a", "2")
		pass(time.Minute)
		n.cluster.set(tls, "key", "k2")
		synctest.Wait() // It is at work since a moment ago.
		if s := d.Summary(); s.NotCurrent[volume.Busy] != 1 {
			n.Errorf("Summary() = %+v, want one that is busy", s)
		}
		release()
		pass(settling)
		if s := d.Summary(); s.NotCurrent[volume.Busy] != 0 {
			n.Errorf("Summary() = %+v, want none that is busy", s)
		}
	})
}

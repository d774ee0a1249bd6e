package volume_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestDamageIsMended has what a repeat and the resync look for: not only what the driver remembers but what is there.
func TestDamageIsMended(t *testing.T) {
	t.Parallel()
	damages := map[string]func(root *os.Root) error{
		"the link to all files is gone": func(root *os.Root) error { return root.Remove("..data") },
		"a name is gone":                func(root *os.Root) error { return root.Remove("a") },
		"a file was written":            func(root *os.Root) error { return root.WriteFile("a", nil, 0) },
	}
	looks := map[string]func(d *driver, r state.Record){
		"by a repeat":   func(d *driver, r state.Record) { d.publish(r) },
		"by the resync": func(*driver, state.Record) { pass(2 * resyncInterval) },
	}
	for name, damage := range damages {
		for how, look := range looks {
			bubbleCase(t, name+", mended "+how, func(n *node) {
				d, r := n.published()
				n.damage(r, damage)
				look(d, r)
				pass(settling)
				n.wantFiles(r, map[string]string{"a": "1"})
			})
		}
	}
}

// damage changes the files of a volume behind the driver's back, as somebody with rights on the node
// may.
func (n *node) damage(r state.Record, damage func(*os.Root) error) {
	n.Helper()
	view, err := n.mounts.FS.Open(r.TargetPath)
	n.must(err)
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", view.Dir.Fd()))
	n.must(err)
	n.must(damage(root))
	n.must(errors.Join(root.Close(), view.Close()))
}

// TestTheTimeoutIsForWhatIsMissing: it begins with the API server's answer. That has a limit of its own, which is over before
// a kubelet gives up, and only counts if the caller is that patient: fault 24.
func TestTheTimeoutIsForWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ patience, want time.Duration }{
		"a kubelet's":   {2 * time.Minute, 20 * time.Second},
		"less patience": {publishTimeout + time.Second, publishTimeout + time.Second},
	} {
		bubbleCase(t, name, func(n *node) {
			n.cluster.errs[web] = errSilent
			d := n.start()
			ctx, cancel := context.WithTimeout(n.ctx, tt.patience)
			defer cancel()
			began := time.Now()
			got := n.wantKind(d.Publish(ctx, n.request("config", configMap("web")), access.Token{}), volume.NotReady)
			if want := "configmap default/web has not been read yet"; got != want {
				n.Errorf("Publish() says %q, want %q", got, want)
			}
			wantSame(n, "Publish() took", tt.want, time.Since(began))
			pass(settling)
		})
	}
}

// TestAStopEndsAPublishThatWaits: nobody would tell it that its source is there, and the driver should not take long.
func TestAStopEndsAPublishThatWaits(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start()
		r := n.request("config", configMap("web"))
		done := d.publishing(r)
		pass(settling)
		began := time.Now()
		d.stop()
		n.wantKind(<-done, volume.NotReady)
		wantSame(n, "the publish ended after the stop, want at once", 0, time.Since(began))
	})
}

// TestAPublishIsNoUpdate: how long it waited for its source says nothing about how fast changes reach files.
func TestAPublishIsNoUpdate(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start()
		r := n.request("config", configMap("web"))
		done := d.publishing(r)
		pass(settling)
		n.cluster.set(web, "a", "1")
		n.must(<-done)
		pass(settling)
		for _, o := range n.seen.outcomes() {
			if !o.since.IsZero() {
				n.Errorf("a sync counts as the update of a change at %s, want none", o.since)
			}
		}
		n.set(web, "a", "2")
		var updates int
		for _, o := range n.seen.outcomes() {
			if !o.since.IsZero() {
				updates++
			}
		}
		wantSame(n, "updates counted", 1, updates)
	})
}

// TestTheLookAfterAnUpdateIsNotForgotten: it is due when the last of the replaced files may go, whatever is synced before.
func TestTheLookAfterAnUpdateIsNotForgotten(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.published()
		pass(settling)
		n.faults.forget()
		n.cluster.set(web, "a", "2")
		pass(latency)
		n.cluster.set(web, "a", "2", "b", "3")
		pass(latency)
		n.set(web, "a", "2", "b", "3")
		n.wantFiles(r, map[string]string{"a": "2", "b": "3"})
		wantSame(n, "opened times, want once to write and once to look", 2, n.faults.count("open"))
		pass(settling)
		wantSame(n, "opened times in the end", 2, n.faults.count("open"))
	})
}

// TestALookThatCannotBeTakenIsNotTakenAgainAndAgain: it waits for the source, and is then taken.
func TestALookThatCannotBeTakenIsNotTakenAgainAndAgain(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.published()
		n.cluster.set(web, "a", "2")
		pass(latency)
		n.cluster.remove(web)
		n.seen.forget()
		pass(settling)
		if got := n.seen.results()[volume.ResultFailed]; got > 2 {
			n.Errorf("%d syncs failed in a second, want one for the source and one for the look", got)
		}
		n.faults.forget()
		n.wantUpdate(r, "2")
		wantSame(n, "looked times, want once", 1, n.faults.count("open"))
	})
}

// TestAPublishOutlivesANewcomer to its immutable source, for whom it is read anew in the middle of the publish.
// This is fault 27.
func TestAPublishOutlivesANewcomer(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.ready()
		times := 0
		n.faults.on("put", func() {
			if times++; times < 3 {
				n.cluster.reread(web)
			}
		})
		d.publish(r)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantRecords(r)
		n.faults.on("put", nil)
	})
}

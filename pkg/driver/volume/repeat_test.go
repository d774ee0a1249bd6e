package volume_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestRepeatSucceeds has what may have happened to a live volume when the kubelet repeats itself. An error would make
// kubelets before 1.37 destroy the volume of a running pod. This is fault 11.
func TestRepeatSucceeds(t *testing.T) {
	t.Parallel()
	loseRecord := func(n *node) { n.must(n.records.Store.Delete("csi-config")) }
	happenings := map[string]struct {
		happen    func(n *node)
		isRestart bool
	}{
		"nothing at all":                                        {func(*node) {}, false},
		"its source was deleted":                                {func(n *node) { n.cluster.remove(web) }, false},
		"its access was revoked":                                {func(n *node) { n.cluster.fail(web, forbidden(web)) }, false},
		"its required key went":                                 {func(n *node) { n.cluster.set(web) }, false},
		"the disk is full":                                      {func(n *node) { n.faults.set("put", syscall.ENOSPC) }, false},
		"it cannot be opened":                                   {func(n *node) { n.faults.set("open", syscall.EIO) }, false},
		"the mounts cannot be listed":                           {func(n *node) { n.faults.set("mounted", syscall.EMFILE) }, false},
		"the driver was restarted":                              {func(*node) {}, true},
		"the driver was restarted while the API server is away": {func(n *node) { n.cluster.errs[web] = errSilent }, true},
		"the driver was restarted and may not read":             {func(n *node) { n.cluster.fail(web, forbidden(web)) }, true},
		"the driver was restarted and cannot watch":             {func(n *node) { n.cluster.refused[web] = true }, true},
		"its record was lost with the driver":                   {loseRecord, true},
		"its record was lost and cannot be written": {func(n *node) {
			loseRecord(n)
			n.faults.set("put", syscall.ENOSPC)
		}, true},
	}
	for name, tt := range happenings {
		bubbleCase(t, name, func(n *node) {
			n.maps = identity.ByPod // Whose access can be revoked.
			d, r := n.published(api.KeyItems, "[{key: a, path: a}]")
			if tt.happen(n); tt.isRestart {
				d = d.restart()
			}
			pass(settling)
			for range 3 {
				d.publish(r)
				pass(settling)
				n.wantFiles(r, map[string]string{"a": "1"})
			}
			for _, op := range []string{"create", "publish", "unmount", "delete"} {
				wantSame(n, "times of "+op, 0, n.faults.count(op))
			}
			wantSame(n, "Volumes()", 1, d.Volumes())
		})
	}
}

func TestRequestThatIsNoRepeatIsRefused(t *testing.T) {
	t.Parallel()
	group := 7
	tests := map[string]func(r *state.Record){
		"other attributes":      func(r *state.Record) { r.Attributes = configMap("other") },
		"unacceptable ones":     func(r *state.Record) { r.Attributes = configMap("web", "wrong", "1") },
		"another pod":           func(r *state.Record) { r.Pod.UID = "uid-later" },
		"another fsGroup":       func(r *state.Record) { r.FSGroup = &group },
		"another target":        func(r *state.Record) { r.TargetPath += "2" },
		"less of a target path": func(r *state.Record) { r.TargetPath = r.TargetPath[:len(r.TargetPath)-1] },
	}
	for name, change := range tests {
		bubbleCase(t, name, func(n *node) {
			d, r := n.published()
			n.cluster.set(api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "other"}, "a", "other")
			again := r
			again.Attributes = maps.Clone(r.Attributes)
			change(&again)
			got := n.wantKind(d.Publish(n.ctx, again, access.Token{}), volume.Different)
			want := "volume csi-config is already published on " + r.TargetPath + " with other parameters"
			if got != want {
				n.Errorf("Publish() says %q, want %q", got, want)
			}
			pass(settling)
			n.wantFiles(r, map[string]string{"a": "1"})
			n.wantRecords(r)
			if again.TargetPath != r.TargetPath {
				n.wantFiles(again, nil)
			}
			n.set(web, "a", "2")
			n.wantFiles(r, map[string]string{"a": "2"}) // It lives on.
		})
	}
}

// TestAnUnmountedVolumeIsMountedAgain (fault 16): the container does not see the next change, the driver's check reports
// the missing mount, and a repeat of the publish mounts the volume again.
func TestAnUnmountedVolumeIsMountedAgain(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		n.wantUpdate(r, "2")
		n.must(n.mounts.Unmount(r.TargetPath))
		n.set(web, "a", "3")
		if problem, err := d.Condition(r.VolumeID, r.TargetPath); problem == nil || err != nil {
			n.Errorf("Condition = %v, %v, want that nothing is mounted", problem, err)
		}
		d.publish(r)
		n.wantFiles(r, map[string]string{"a": "3"})
		wantSame(n, "users of sources", map[api.Ref]int{web: 1}, n.cluster.users())
		pass(settling)
		n.wantProblem(r, "")
		n.wantUpdate(r, "4")
	})
}

// TestAnUnmountedVolumeCannotBeMountedAgain: a repeat, which would make it again, is refused, because its source is gone
// too. Nothing is half made, a container that runs has its files, and the volume is back when its source is. These are
// faults 11, 15 and 16.
func TestAnUnmountedVolumeCannotBeMountedAgain(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		container, err := os.OpenRoot(r.TargetPath)
		n.must(err)
		defer container.Close()
		n.must(n.mounts.Unmount(r.TargetPath))
		n.cluster.set(web, "a", "2") // Its update fails, and is tried again.
		pass(latency)
		n.cluster.remove(web)
		n.faults.set("delete", syscall.EIO)
		d.wantRefused(r, volume.IO)
		n.faults.set("delete", nil)
		for range 2 {
			d.wantRefused(r, volume.Missing)
			synctest.Wait()
			n.wantNothing(d)
		}
		if got, err := container.ReadFile("a"); string(got) != "1" || err != nil {
			n.Errorf("a container reads %q, %v, want what it had", got, err)
		}
		n.cluster.set(web, "a", "3")
		d.publish(r)
		n.wantUpdate(r, "4")
		wantSame(n, "mounts on the target", []string{r.TargetPath}, n.mountPoints(r.TargetPath))
	})
}

// TestARepeatBringsBackAStateThatWasWiped under a running driver, which needs none of it, so that the next run misses nothing.
// This is fault 20.
func TestARepeatBringsBackAStateThatWasWiped(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		n.must(os.RemoveAll(filepath.Join(n.dir, "state")))
		n.wantUpdate(r, "2")
		d.publish(r)
		n.wantRecords(r)
		d.stop()
		n.cluster.set(web, "a", "3")
		n.start()
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "3"})
	})
}

// TestALostRecordIsStoredAgainWithoutAWrite (fault 20): without a record the driver learns of the volume from the kubelet's repeat.
// Until then and afterwards the files stay as they are.
func TestALostRecordIsStoredAgainWithoutAWrite(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		lost := n.request("lost", configMap("web", api.KeyUID, "0")) // It shares its files with none.
		d.publish(lost)
		before := n.generation(lost)
		lose := func() {
			d.stop()
			n.must(n.records.Store.Delete(lost.VolumeID))
			d = n.start()
			wantSame(n, "Volumes()", 1, d.Volumes())
			pass(settling)
		}
		lose()
		n.seen.forget()
		d.publish(lost)
		pass(settling)
		n.wantRecords(r, lost)
		wantSame(n, "generation: the files were right", before, n.generation(lost))
		wantSame(n, "written", 0, n.seen.results()[volume.ResultWritten])
		lose()
		n.wantUpdate(r, "2")
		n.wantFiles(lost, map[string]string{"a": "1"})
		d.publish(lost)
		pass(settling)
		n.wantFiles(lost, map[string]string{"a": "2"})
		n.wantUpdate(lost, "3")
	})
}

// generation returns the directory that a volume's ..data leads to: a new one with each write.
func (n *node) generation(r state.Record) string {
	n.Helper()
	generation, err := os.Readlink(r.TargetPath + "/..data")
	n.must(err)
	return generation
}

// TestUnpublishesAtOnce of volumes that are there, and of those that are not (fault 13): each ends in nil, or is refused because
// of one that is under way. The mount alone is enough, and so is the record.
func TestUnpublishesAtOnce(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*node, state.Record){
		"published": func(*node, state.Record) {},
		"unmounted": func(n *node, r state.Record) { n.must(n.mounts.Unmount(r.TargetPath)) },
		"unpublished, and unknown to the next run": func(n *node, r state.Record) {
			n.driver.unpublish(r)
			n.driver.restart()
		},
		"its record lost": func(n *node, r state.Record) {
			n.must(n.records.Store.Delete(r.VolumeID))
			n.driver.restart()
		},
		"its target gone": func(n *node, r state.Record) {
			n.must(n.mounts.Unmount(r.TargetPath))
			n.must(os.RemoveAll(filepath.Join(n.dir, "pods")))
		},
	} {
		bubbleCase(t, name, func(n *node) {
			_, r := n.published()
			prepare(n, r)
			d := n.driver
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
		wantSame(n, "side effects", nil, n.faults.order())
		wantSame(n, "syncs", 0, len(n.seen.outcomes()))
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
		wantSame(n, "syncs, want the one write", map[volume.Result]int{volume.ResultWritten: 1}, n.seen.results())
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
		n.must(d.Unpublish(n.ctx, r.VolumeID, other.TargetPath))
		n.wantNothing(d)

		d.publish(r)
		n.faults.set("unmount", syscall.EBUSY)
		n.wantKind(d.Unpublish(n.ctx, r.VolumeID, other.TargetPath), volume.IO)
		n.faults.set("unmount", nil)
		n.must(d.Unpublish(n.ctx, r.VolumeID, other.TargetPath))
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

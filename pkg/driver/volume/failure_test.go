package volume_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestFailingFirstPublishLeavesNothing breaks each side effect of a publish in turn, and has a name that no file system takes.
// The kubelet's next try succeeds. This is trap 4. This is fault 15.
func TestFailingFirstPublishLeavesNothing(t *testing.T) {
	t.Parallel()
	const write = "write"
	for _, op := range []string{"mounted", "put", "create", write, "publish"} {
		bubbleCase(t, op, func(n *node) {
			d, r := n.ready()
			cause := syscall.ENOSPC
			if op == write {
				cause = syscall.ENAMETOOLONG
				n.cluster.set(web, "a", "1", strings.Repeat("n", 256), "")
			} else {
				n.faults.set(op, cause)
			}
			for range 2 {
				err := d.Publish(n.ctx, r, noToken)
				n.wantKind(err, volume.IO)
				if !errors.Is(err, cause) {
					n.Errorf("Publish() = %v, want it to wrap %v", err, cause)
				}
				pass(settling)
				n.wantNothing(d)
			}
			n.faults.mend()
			n.set(web, "a", "1")
			d.publish(r)
			n.wantFiles(r, map[string]string{"a": "1"})
			n.wantRecords(r)
		})
	}
}

// TestAPanickingFirstPublishLeavesNothing: the driver survives it, and the kubelet may never come back for what is left.
func TestAPanickingFirstPublishLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"put", "create", "publish", "usage"} { // The last is asked when the files are there.
		bubbleCase(t, op, func(n *node) {
			n.cluster.set(web, "a", "1")
			room, option := limited(1 << 20)
			d := n.start(option)
			r := n.request("config", configMap("web"))
			n.faults.on(op, func() { panic("a bug") })
			func() {
				defer func() {
					wantSame(n, "recovered from, want the bug", "a bug", recover())
				}()
				_ = d.Publish(n.ctx, r, access.NewToken("token", time.Now().Add(time.Hour)))
			}()
			n.faults.on(op, nil)
			pass(settling)
			n.wantNothing(d)
			if used, token := room.Used(), n.tokens.of(r.VolumeID); used != 0 || !token.IsZero() {
				n.Errorf("Used() = %d, token %v, want nothing", used, token)
			}
			wantSame(n, "the time that it has been worked on", 0, d.Age(r.VolumeID))
			d.publish(r)
			n.wantFiles(r, map[string]string{"a": "1"})
		})
	}
}

// TestRecordThatIsWrittenAlthoughPutFails: the disk may report an error after the record is in its place.
func TestRecordThatIsWrittenAlthoughPutFails(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.ready()
		n.faults.set("put", syscall.EIO)
		n.faults.on("put", func() {
			n.must(n.records.Store.Put(r))
		})
		d.wantRefused(r, volume.IO)
	})
}

// TestEveryCauseIsNamed: when cleaning up fails as well, the message has both, the first cause first.
func TestEveryCauseIsNamed(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.ready()
		for op, err := range map[string]error{"publish": syscall.ENOSPC, "delete": syscall.EIO} {
			n.faults.set(op, err)
		}
		err := d.Publish(n.ctx, r, access.Token{})
		n.wantKind(err, volume.IO)
		for _, want := range []error{syscall.ENOSPC, syscall.EIO} {
			if !errors.Is(err, want) {
				n.Errorf("Publish() = %v, want it to wrap %v", err, want)
			}
		}
		var e *volume.Error
		if errors.As(err, &e) && (e.Op != "publish" || e.VolumeID != r.VolumeID) {
			n.Errorf("error of %s of %s, want publish of %s", e.Op, e.VolumeID, r.VolumeID)
		}
		for _, op := range []string{"publish", "delete"} {
			n.faults.set(op, nil)
		}
		d.publish(r) // The record that stayed is in nobody's way.
		n.wantFiles(r, map[string]string{"a": "1"})
	})
}

// TestTargetThatIsTaken: what somebody else has put in the target's place is neither used nor removed. This is fault 16.
func TestTargetThatIsTaken(t *testing.T) {
	t.Parallel()
	mount := func(source, kind string, flags uintptr) func(*node, string) error {
		return func(_ *node, target string) error {
			return errors.Join(os.Mkdir(target, 0o750), unix.Mount(source, target, kind, flags, ""))
		}
	}
	const ours = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	tests := map[string]struct {
		take  func(n *node, target string) error
		want  volume.Kind
		stays bool // Unpublish fails, because it must not take it away.
	}{
		"by a file":                     {func(_ *node, target string) error { return os.WriteFile(target, []byte("mine"), 0o600) }, volume.IO, true},
		"by a pipe":                     {func(_ *node, target string) error { return unix.Mkfifo(target, 0o600) }, volume.IO, true},
		"by a symlink":                  {func(n *node, target string) error { return os.Symlink(n.dir, target) }, volume.Invalid, false},
		"by a directory in use":         {func(_ *node, target string) error { return os.MkdirAll(target+"/mine", 0o700) }, volume.IO, true},
		"as there is no way to it":      {func(_ *node, target string) error { return os.Remove(strings.TrimSuffix(target, "/mount")) }, volume.IO, false},
		"by a file system":              {mount("tmpfs", "tmpfs", 0), volume.Invalid, true},
		"by one with the flags of ours": {mount("theirs", "tmpfs", ours), volume.Invalid, true},
		"by a bind mount":               {mount("/dev", "", unix.MS_BIND), volume.Invalid, true},
		"by a file on a file": {func(_ *node, target string) error {
			return errors.Join(os.WriteFile(target, nil, 0o600), unix.Mount("/dev/null", target, "", unix.MS_BIND, ""))
		}, volume.Invalid, true},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.foreign = true
			d, r := n.ready()
			n.must(tt.take(n, r.TargetPath))
			before, err := os.Lstat(r.TargetPath)
			mounts := n.mountPoints(n.dir)
			check := func() {
				n.Helper()
				if after, _ := os.Lstat(r.TargetPath); err == nil && !os.SameFile(before, after) {
					n.Error("what was at the target is not there any more")
				}
				wantSame(n, "mounts", mounts, n.mountPoints(n.dir))
				n.wantRecords()
				wantSame(n, "Volumes()", 0, d.Volumes())
				n.wantNoUsers()
			}
			for range 2 {
				d.wantRefused(r, tt.want)
				check()
				if err := d.Unpublish(n.ctx, r.VolumeID, r.TargetPath); (err != nil) != tt.stays {
					n.Errorf("Unpublish() = %v, want an error: %t", err, tt.stays)
				}
				check()
			}
			_, problem := d.Condition(r.VolumeID, r.TargetPath)
			n.wantKind(problem, volume.Unknown)
		})
	}
}

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

// damage changes the files of a volume without the driver, as an administrator of the node can.
func (n *node) damage(r state.Record, damage func(*os.Root) error) {
	n.Helper()
	view, err := n.mounts.FS.Open(r.TargetPath)
	n.must(err)
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", view.Dir.Fd()))
	n.must(err)
	n.must(damage(root))
	n.must(errors.Join(root.Close(), view.Close()))
}

// TestTheTimeoutIsForWhatIsMissing (fault 24): the publish timeout begins with the API server's answer. The wait for the answer
// has a separate limit, which ends before a kubelet gives up, and which applies if the caller's deadline is later.
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
			wantSame(n, "Publish() says", "configmap default/web has not been read yet", n.wantKind(d.Publish(ctx, n.request("config", configMap("web")), access.Token{}), volume.NotReady))
			wantSame(n, "Publish() took", tt.want, time.Since(began))
			pass(settling)
		})
	}
}

// TestAStopEndsAPublishThatWaits: a driver that stops follows no source, and it has to end soon.
func TestAStopEndsAPublishThatWaits(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.startFor(configMap("web"))
		done := d.publishing(r)
		pass(settling)
		began := time.Now()
		d.stop()
		n.wantKind(<-done, volume.NotReady)
		wantSame(n, "the publish ended after the stop, want at once", 0, time.Since(began))
	})
}

// TestAPublishIsNoUpdate: how long it waited for its source shows nothing about how fast changes reach files.
func TestAPublishIsNoUpdate(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start()
		done := d.publishing(n.request("config", configMap("web")))
		pass(settling)
		n.cluster.set(web, "a", "1")
		n.must(<-done)
		pass(settling)
		isUpdate := func(o outcome) bool { return !o.since.IsZero() }
		if i := slices.IndexFunc(n.seen.outcomes(), isUpdate); i >= 0 {
			n.Errorf("a sync counts as the update of a change at %s, want none", n.seen.outcomes()[i].since)
		}
		n.set(web, "a", "2")
		wantSame(n, "updates counted", 1, len(slices.DeleteFunc(n.seen.outcomes(), func(o outcome) bool { return !isUpdate(o) })))
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

// TestAPublishOutlivesANewcomer is fault 27: a second volume uses the same immutable source, so that the driver reads the source
// again in the middle of the first volume's publish.
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

// TestAPanicFreezesOneVolume, once, and no other one: it would come again after each restart of the driver.
func TestAPanicFreezesOneVolume(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		beside := n.request("beside", configMap("web", api.KeyDefaultMode, "0400"))
		d.publish(beside)
		n.seen.forget()
		ask := n.mounts.Fail
		n.mounts.Fail = func(op, target string) error {
			if op == "open" && target == r.TargetPath {
				panic("poison")
			}
			return ask(op, target)
		}
		n.set(web, "a", "2")
		n.mounts.Fail = ask
		told := n.seen.told()
		slices.Sort(told)
		wantSame(n, "Events", []string{
			`Frozen: volume "config": the files stay as they are until the pod is replaced: the driver panicked when it updated them; ` +
				`its log has the stack`,
			`Projected: volume "beside": a change of the sources is in the files`,
		}, told)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantFiles(beside, map[string]string{"a": "2"})
		n.set(web, "a", "3")
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantFiles(beside, map[string]string{"a": "3"})
		n.must(d.Healthy())
		d.restart()
		n.wantFiles(r, map[string]string{"a": "3"})
	})
}

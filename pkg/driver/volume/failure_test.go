package volume_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
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
			if age := d.Age(r.VolumeID); age != 0 {
				n.Errorf("it has been worked on for %s, want not at all", age)
			}
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

// TestEveryCauseIsNamed: when cleaning up fails as well, the message says both, the first cause first.
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

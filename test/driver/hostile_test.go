package driver

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

// hostileBench is a bench whose driver is called with what no kubelet sends. Beside the kubelet's directory is another
// one, which no call may reach.
type hostileBench struct {
	*rig
	outside string
}

func newHostileBench(t testing.TB, args ...string) *hostileBench {
	t.Helper()
	return hostile(newRig(t, append([]string{"--publish-timeout=200ms"}, args...)...))
}

func hostile(inner *rig) *hostileBench {
	t := inner.T
	t.Helper()
	b := &hostileBench{rig: inner}
	b.outside = filepath.Join(filepath.Dir(b.Node.KubeletDir()), "outside")
	for _, dir := range []string{"mount", "config/mount"} {
		must(t, os.MkdirAll(filepath.Join(b.outside, dir), 0o755))
	}
	writeFile(t, filepath.Join(b.outside, "canary"), "alive")
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	t.Cleanup(func() { unmountBelow(t, filepath.Dir(b.outside)) }) // Or nothing could be removed after a failure.
	return b
}

// web returns a pod with a volume of the ConfigMap web, whose name starts with the given one.
func (b *hostileBench) web(name string) *corev1.Pod {
	b.T.Helper()
	return b.Pod(name+"-"+string(uuid.NewUUID()[:8]), map[string]string{"configMap": "web"})
}

// request returns a kubelet's request for the pod's volume, whose parent directory it has made.
func (b *rig) request(pod *corev1.Pod) *csi.NodePublishVolumeRequest {
	b.T.Helper()
	req := fakekubelet.PublishRequest(b.Node.KubeletDir(), pod, pod.Spec.Volumes[0])
	must(b.T, os.MkdirAll(filepath.Dir(req.GetTargetPath()), 0o750))
	return req
}

func (b *rig) send(req *csi.NodePublishVolumeRequest) error {
	b.T.Helper()
	_, err := b.Node.Node().NodePublishVolume(b.T.Context(), req)
	return b.Heard(err)
}

func (b *rig) sendUnpublish(volumeID, target string) error {
	b.T.Helper()
	req := &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: target}
	_, err := b.Node.Node().NodeUnpublishVolume(b.T.Context(), req)
	return b.Heard(err)
}

func (b *rig) sendStats(volumeID, path string) error {
	b.T.Helper()
	req := &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID, VolumePath: path}
	_, err := b.Node.Node().NodeGetVolumeStats(b.T.Context(), req)
	return b.Heard(err)
}

// listing returns everything in the node's directory but the log and what is in volumes: modes, inodes, what files hold,
// where links lead, and the mounts.
func (b *rig) listing() map[string]string {
	b.T.Helper()
	return b.listingOf(filepath.Dir(b.Node.StateDir()))
}

func (b *rig) listingOf(dir string) map[string]string {
	b.T.Helper()
	var found map[string]string
	environment.Eventually(b.T, soon, func() (err error) { // The driver tries now and then whether it can write a record, and removes that.
		found, err = b.tryListing(dir)
		return err
	})
	return found
}

func (b *rig) tryListing(dir string) (map[string]string, error) {
	b.T.Helper()
	found := map[string]string{}
	for _, line := range environment.Mounts(b.T, dir) {
		fields := strings.Fields(line)
		found["mount on "+fields[4]] += fields[0] + " "
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == b.Node.LogFile() || entry.Name() == "holder.json" { // Each driver that starts writes both.
			return err
		}
		if strings.HasPrefix(entry.Name(), "tmp-") {
			return fmt.Errorf("%s is there", path)
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		found[path] = fmt.Sprintf("%s, inode %d", entry.Type(), st.Ino)
		if _, ok := found["mount on "+path]; ok {
			return fs.SkipDir
		}
		if entry.Type() == fs.ModeSymlink {
			to, err := os.Readlink(path)
			found[path] += ", to " + to
			return err
		}
		if entry.Type().IsRegular() {
			text, err := os.ReadFile(path)
			found[path] += ", with " + string(text)
			return err
		}
		return nil
	})
	return found, err
}

// wantUnchanged compares the node's directory with what it was.
func (b *rig) wantUnchanged(before map[string]string, when string) {
	b.T.Helper()
	if diff := cmp.Diff(before, b.listing()); diff != "" {
		b.T.Errorf("%s: the node's directory has changed (-before +after):\n%s", when, diff)
	}
}

// wantCode wants an answer that people can read: one with the code, and not longer than an Event can be.
func wantCode(t testing.TB, err error, what string, want ...codes.Code) {
	t.Helper()
	for _, code := range want {
		if status.Code(err) == code {
			want = nil
		}
	}
	if want != nil {
		t.Errorf("%s gave %.300v, want %v", what, err, want)
	}
	if message := status.Convert(err).Message(); len(message) > maxMessage {
		t.Errorf("%s is answered with %d bytes, want no more than %d", what, len(message), maxMessage)
	}
}

// maxMessage is more than any message needs.
const maxMessage = 16 << 10

// line is what each line of the log looks like in text.
var line = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) msg=("([^"\\]|\\.)*"|\S+)( [^ =]+=("([^"\\]|\\.)*"|[^" ]*))*$`)

// wantOneLineEach wants that nothing a caller sends becomes a separate line in the log, or moves a terminal's cursor.
func (b *rig) wantOneLineEach() {
	b.T.Helper()
	log, err := os.ReadFile(b.Node.LogFile())
	must(b.T, err)
	for text := range strings.Lines(string(log)) {
		text = strings.TrimSuffix(text, "\n")
		if !line.MatchString(text) {
			b.T.Errorf("the log has the line %.300q", text)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' }) {
			b.T.Errorf("the log has control characters in %.300q", text)
		}
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// unmountBelow takes away every mount below dir.
func unmountBelow(t testing.TB, dir string) {
	t.Helper()
	for _, line := range environment.Mounts(t, dir) {
		if err := unix.Unmount(strings.Fields(line)[4], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			t.Error(err)
		}
	}
}

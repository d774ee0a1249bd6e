package driver

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// hostileBench is a bench whose driver is called with what no kubelet sends. Beside the kubelet's directory is another
// one, which no call may reach.
type hostileBench struct {
	*rig
	outside string
}

func newHostileBench(t testing.TB, args ...string) *hostileBench {
	t.Helper()
	b := &hostileBench{rig: &rig{fixture.New(t, append([]string{"--publish-timeout=200ms"}, args...)...)}}
	b.outside = filepath.Join(filepath.Dir(b.Node.KubeletDir()), "outside")
	for _, dir := range []string{"mount", "config/mount"} {
		expect.NoError(t, os.MkdirAll(filepath.Join(b.outside, dir), 0o755))
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
	expect.NoError(b.T, os.MkdirAll(filepath.Dir(req.GetTargetPath()), 0o750))
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
	dir := filepath.Dir(b.Node.StateDir())
	var found map[string]string
	expect.Eventually(b.T, fixture.Soon, func() (err error) { // The driver tries now and then whether it can write a record, and removes that.
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
	expect.NoError(b.T, err)
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
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
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

// oddTexts are what should never be more than a text.
func oddTexts() map[string]string {
	return map[string]string{
		"a path up":        "../../../etc/passwd",
		"a path":           "/etc/passwd",
		"the root":         "/",
		"a dot":            ".",
		"two dots":         "..",
		"a NUL":            "a\x00b",
		"a forged line":    "a\ntime=2026-01-01T00:00:00Z level=INFO msg=forged",
		"a forged pair":    `a" level=INFO msg=forged x="`,
		"a terminal's":     "a\x1b[2J\x1b[1;1H\r\x07\x7f",
		"line separators":  "a\u2028b\u2029c\u0085d",
		"right to left":    "a\u202egnp.exe",
		"other letters":    "日本/é\U0001f600",
		"a format":         "%s%n%!d(BADINDEX)%[2]*.[1]*f",
		"JSON":             `","targetPath":"/etc","x":"`,
		"a record's name":  "tmp-1",
		"a blank":          " ",
		"an empty element": "//",
	}
}

// TestTextOfARequestIsNeverMoreThanText sends odd and large texts as everything in a request. None of them makes the
// driver look into another namespace, or leaves anything on the node, and the driver serves on.
func TestTextOfARequestIsNeverMoreThanText(t *testing.T) {
	t.Parallel()
	began := time.Now()
	b := newHostileBench(t, "--publish-timeout=10ms")
	refusals := []codes.Code{
		codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied,
		codes.Unavailable, // No such namespace can be asked about, and no token is sent.
		codes.Internal,    // No such directory is there.
	}
	pod := b.web("web")
	texts := oddTexts()
	texts["a mebibyte"] = strings.Repeat("a\x01", 1<<19)
	for name, text := range texts {
		for where, change := range placesForText() {
			if name == "a mebibyte" && where == "account" {
				continue // A kubelet sends no more than 253 bytes.
			}
			req := b.request(pod)
			change(req, text)
			before := b.listing()
			err := b.send(req)
			if err == nil {
				expect.NoError(t, b.sendUnpublish(req.GetVolumeId(), req.GetTargetPath()))
			}
			switch {
			case err != nil:
				wantCode(t, err, name+" as "+where, refusals...)
			case where != "ID":
				t.Errorf("%s as %s: publish succeeded", name, where)
			}
			b.wantUnchanged(before, name+" as "+where)
		}
	}
	b.wantOneLineEach()
	b.wantRequestsWithin(began)

	const limit = 4 << 20 // Of gRPC, which the driver leaves as it is.
	req := b.request(pod)
	req.VolumeContext["other"] = strings.Repeat("x", limit-2000)
	req.VolumeContext["other"] += strings.Repeat("x", limit-proto.Size(req))
	wantCode(t, b.send(req), "as much as the server takes", codes.InvalidArgument)
	req.VolumeContext["other"] += "x"
	wantCode(t, b.send(req), "a byte more", codes.ResourceExhausted)
	b.Publish(pod)
	b.WantFile(pod, "color", "red")
}

// placesForText put a text into a request.
func placesForText() map[string]func(r *csi.NodePublishVolumeRequest, text string) {
	type request = csi.NodePublishVolumeRequest
	places := map[string]func(r *request, text string){
		"ID":              func(r *request, text string) { r.VolumeId = text },
		"namespace below": func(r *request, text string) { r.VolumeContext["csi.storage.k8s.io/pod.namespace"] += "/" + text },
		"attribute":       func(r *request, text string) { r.VolumeContext[text] = text },
		"group":           func(r *request, text string) { r.GetVolumeCapability().GetMount().VolumeMountGroup = text },
		"pod": func(r *request, text string) {
			r.VolumeContext["csi.storage.k8s.io/pod.name"], r.VolumeContext["configMap"] = text, "none" // For an Event.
		},
		"account": func(r *request, text string) {
			r.VolumeContext["csi.storage.k8s.io/serviceAccount.name"], r.VolumeContext["namespace"] = text, "kube-system"
		},
		"volume": func(r *request, text string) {
			r.TargetPath = filepath.Dir(filepath.Dir(r.GetTargetPath())) + "/" + text + "/mount"
		},
	}
	for _, key := range []string{
		"csi.storage.k8s.io/pod.namespace", "csi.storage.k8s.io/pod.uid", "configMap", "secret", "namespace",
	} {
		places["value of "+key] = func(r *request, text string) { r.VolumeContext[key] = text }
	}
	for _, key := range []string{"items", "optional", "sources", "defaultMode", "uid", "gid", "updatePolicy", "onDelete"} {
		places["value of "+key] = func(r *request, text string) { r.VolumeContext[key] = text + "]" } // A blank alone is none.
	}
	return places
}

// wantRequestsWithin wants that the driver has read objects of no namespace that there is, but for those of tests.
func (b *rig) wantRequestsWithin(since time.Time) {
	b.T.Helper()
	requests, err := b.Cluster.Requests(since)
	expect.NoError(b.T, err)
	namespaces, err := b.Cluster.Client().CoreV1().Namespaces().List(b.T.Context(), metav1.ListOptions{})
	expect.NoError(b.T, err)
	seen := map[string]bool{}
	for _, r := range requests {
		if r.User == cluster.ServiceAccountUser(environment.DriverNamespace, environment.DriverAccount) && !strings.Contains(r.URI, "/events") {
			seen[r.Namespace] = true
		}
	}
	if !seen[b.Namespace] {
		b.T.Error("the audit log shows no request of the driver at all")
	}
	for _, n := range namespaces.Items {
		if seen[n.Name] && !strings.HasPrefix(n.Name, "test-") {
			b.T.Errorf("the driver has read objects of namespace %s", n.Name)
		}
	}
}

// TestOthersVolumesCannotBeReached has calls for one pod's volume that name the path of another's, or one outside.
func TestOthersVolumesCannotBeReached(t *testing.T) {
	t.Parallel()
	b := newHostileBench(t)
	mine, theirs := b.web("mine"), b.web("theirs")
	b.Publish(theirs)
	id, own, other := fakekubelet.VolumeID(mine, "config"), b.Node.Target(mine, "config"), b.Node.Target(theirs, "config")
	unknown := b.listing()
	wantCode(t, b.sendUnpublish("nobody's", other), "unpublish of another's volume by an unknown ID", codes.OK, codes.InvalidArgument)
	b.wantUnchanged(unknown, "unpublish of another's volume by an unknown ID")

	b.Publish(mine)
	before := b.listing()
	req := b.request(mine)
	req.TargetPath = other
	wantCode(t, b.send(req), "publish on another's target", codes.AlreadyExists, codes.InvalidArgument)
	b.wantUnchanged(before, "publish on another's target")
	req.VolumeId = "nobody's"
	wantCode(t, b.send(req), "publish by a new ID on another's target", codes.AlreadyExists, codes.InvalidArgument)
	b.wantUnchanged(before, "publish by a new ID on another's target")

	// Statistics have nothing about other paths, not even whether there is something.
	there, missing := b.outside+"/canary", b.outside+"/nobody"
	for _, path := range []string{other, "/", "/proc/self/environ", b.outside, "", own + "/color", own + "/", own + "/.", there, missing} {
		wantCode(t, b.sendStats(id, path), fmt.Sprintf("statistics of %q", path), codes.NotFound, codes.InvalidArgument)
	}
	one, two := b.sendStats(id, there), b.sendStats(id, missing)
	if a, z := strings.ReplaceAll(fmt.Sprint(one), there, "PATH"), strings.ReplaceAll(fmt.Sprint(two), missing, "PATH"); a != z {
		t.Errorf("statistics distinguish a path that is there (%s) from one that is not (%s)", a, z)
	}
	_, err := b.Node.Node().NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: id, VolumePublishPath: there})
	wantCode(t, err, "health on a path outside", codes.NotFound, codes.InvalidArgument)
	b.wantUnchanged(before, "questions")

	// The ID decides which volume goes: the one that it stands for, and not what the path belongs to.
	wantCode(t, b.sendUnpublish(id, other), "unpublish by the path of another's volume", codes.OK, codes.InvalidArgument)
	b.WantFile(theirs, "color", "red")
	b.UpdateConfigMap("web", map[string]string{"color": "green"})
	b.WantFile(theirs, "color", "green")
}

package driver

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

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

// TestVolumeIDsAreNeverPaths publishes volumes with odd IDs, takes them over a restart, and looks for every name that this
// makes on the node.
func TestVolumeIDsAreNeverPaths(t *testing.T) {
	t.Parallel()
	b := newHostileBench(t)
	ids := oddTexts()
	ids["long"] = strings.Repeat("i", 100<<10)
	var live []*csi.NodePublishVolumeRequest
	pods := map[*csi.NodePublishVolumeRequest]*corev1.Pod{}
	for name, id := range ids {
		pod := b.web("web")
		req := b.request(pod)
		req.VolumeId = id
		before := b.listing()
		if err := b.send(req); err != nil {
			wantCode(t, err, name, codes.InvalidArgument)
			b.wantUnchanged(before, name)
			wantCode(t, b.sendUnpublish(id, req.GetTargetPath()), name, codes.OK, codes.InvalidArgument)
			b.wantUnchanged(before, name)
			continue
		}
		live, pods[req] = append(live, req), pod
		record := filepath.Join(b.Node.StateDir(), "volumes", fmt.Sprintf("%x.json", sha256.Sum256([]byte(id))))
		want := []string{"mount on " + req.GetTargetPath(), req.GetTargetPath(), record}
		after := b.listing()
		maps.DeleteFunc(after, func(path, _ string) bool { return before[path] != "" })
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(after))); diff != "" {
			t.Errorf("%s: new names on the node (-want +got):\n%s", name, diff)
		}
		if err := b.sendStats(id, req.GetTargetPath()); err != nil {
			t.Errorf("%s: statistics: %v", name, err)
		}
	}
	if len(live) == 0 {
		t.Fatal("no odd ID at all was served")
	}
	b.Kill()
	b.UpdateConfigMap("web", map[string]string{"color": "green"})
	b.Start()
	for _, req := range live {
		b.WantFile(pods[req], "color", "green")
		if err := b.sendUnpublish(req.GetVolumeId(), req.GetTargetPath()); err != nil {
			t.Errorf("unpublish %.40q: %v", req.GetVolumeId(), err)
		}
		b.WantNothing(pods[req], "after unpublish")
	}
	records, err := os.ReadDir(filepath.Join(b.Node.StateDir(), "volumes"))
	if err != nil || len(records) != 0 {
		t.Errorf("records left behind: %v, %v", records, err)
	}
	wantCode(t, b.sendUnpublish("", "/x"), "no ID", codes.InvalidArgument)
	wantCode(t, b.send(&csi.NodePublishVolumeRequest{}), "nothing at all", codes.InvalidArgument)
	b.wantOneLineEach()
}

// TestWhatIsSaidAboutThePodIsNeverMoreThanText sends odd texts as everything else that a request says. None of
// them makes the driver look into another namespace.
func TestWhatIsSaidAboutThePodIsNeverMoreThanText(t *testing.T) {
	t.Parallel()
	began := time.Now()
	b := newHostileBench(t, "--publish-timeout=10ms")
	refusals := []codes.Code{
		codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied,
		codes.Unavailable, // No such namespace can be asked about, and no token is sent.
		codes.Internal,    // No such directory is there.
	}
	pod := b.web("web")
	for name, text := range oddTexts() {
		for where, change := range map[string]func(*csi.NodePublishVolumeRequest){
			"namespace": func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["csi.storage.k8s.io/pod.namespace"] = text },
			"namespace below": func(r *csi.NodePublishVolumeRequest) {
				r.VolumeContext["csi.storage.k8s.io/pod.namespace"] += "/" + text
			},
			"source":        func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["configMap"] = text },
			"its namespace": func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["namespace"] = text },
			"attribute":     func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[text] = text },
			"items":         func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["items"] = text + "]" },
			"group": func(r *csi.NodePublishVolumeRequest) {
				r.GetVolumeCapability().GetMount().VolumeMountGroup = text
			},
			"pod": func(r *csi.NodePublishVolumeRequest) {
				r.VolumeContext["csi.storage.k8s.io/pod.name"], r.VolumeContext["configMap"] = text, "none" // For an Event.
			},
			"account": func(r *csi.NodePublishVolumeRequest) {
				r.VolumeContext["csi.storage.k8s.io/serviceAccount.name"], r.VolumeContext["namespace"] = text, "kube-system"
			},
			"volume": func(r *csi.NodePublishVolumeRequest) {
				r.TargetPath = filepath.Dir(filepath.Dir(r.GetTargetPath())) + "/" + text + "/mount"
			},
		} {
			req := b.request(pod)
			change(req)
			before := b.listing()
			if err := b.send(req); err == nil {
				t.Errorf("%s as %s: publish succeeded", name, where)
				_ = b.sendUnpublish(req.GetVolumeId(), req.GetTargetPath())
			} else {
				wantCode(t, err, name+" as "+where, refusals...)
			}
			b.wantUnchanged(before, name+" as "+where)
		}
	}
	b.wantOneLineEach()
	b.wantRequestsWithin(began)
}

// wantRequestsWithin wants that the driver has read objects of no namespace that there is, but for those of tests.
func (b *rig) wantRequestsWithin(since time.Time) {
	b.T.Helper()
	requests, err := b.Cluster.Requests(since)
	must(b.T, err)
	namespaces, err := b.Cluster.Client().CoreV1().Namespaces().List(b.T.Context(), metav1.ListOptions{})
	must(b.T, err)
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

	// Statistics say nothing about other paths, not even whether there is something.
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

	// The ID says which volume goes: the one that it stands for, and not what the path belongs to.
	wantCode(t, b.sendUnpublish(id, other), "unpublish by the path of another's volume", codes.OK, codes.InvalidArgument)
	b.WantFile(theirs, "color", "red")
	b.UpdateConfigMap("web", map[string]string{"color": "green"})
	b.WantFile(theirs, "color", "green")
}

// TestRequestsOfEverySize sends attributes of a mebibyte, many of them, and messages around the largest that the server
// takes. The driver serves on.
func TestRequestsOfEverySize(t *testing.T) {
	t.Parallel()
	b := newHostileBench(t)
	pod := b.web("web")
	const mebibyte = 1 << 20
	tests := map[string]func(*csi.NodePublishVolumeRequest){
		"an unknown key": func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["other"] = strings.Repeat("x", mebibyte) },
		"a key of 1 MiB": func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[strings.Repeat("k", mebibyte)] = "" },
		"many keys": func(r *csi.NodePublishVolumeRequest) {
			for i := range 100_000 {
				r.VolumeContext[fmt.Sprint("key-", i)] = "x"
			}
		},
		"many items": func(r *csi.NodePublishVolumeRequest) {
			r.VolumeContext["items"] = "[" + strings.Repeat("{key: a, path: a}, ", mebibyte/20) + "]"
		},
		"deep items": func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["items"] = strings.Repeat("[", 60<<10) },
		"items that grow": func(r *csi.NodePublishVolumeRequest) {
			r.VolumeContext["items"] = "- &a [x, x, x, x, x, x, x, x, x]\n" + strings.Repeat("- &a [*a, *a, *a, *a, *a, *a]\n", 30)
		},
		"a target": func(r *csi.NodePublishVolumeRequest) { r.TargetPath += strings.Repeat("/\x01", mebibyte) },
		"a group": func(r *csi.NodePublishVolumeRequest) {
			r.GetVolumeCapability().GetMount().VolumeMountGroup = strings.Repeat("\x01", mebibyte)
		},
		"a pod's UID": func(r *csi.NodePublishVolumeRequest) {
			r.VolumeContext["csi.storage.k8s.io/pod.uid"] = strings.Repeat("\x01", mebibyte)
		},
	}
	for _, key := range []string{
		"configMap", "secret", "namespace", "items", "optional", "sources", "defaultMode", "uid", "gid", "updatePolicy", "onDelete",
	} {
		tests["a value of "+key] = func(r *csi.NodePublishVolumeRequest) {
			delete(r.GetVolumeContext(), "configMap")
			r.VolumeContext[key] = strings.Repeat("a\x01", mebibyte/2)
		}
	}
	b.request(pod) // For its directory.
	before := b.listing()
	for name, change := range tests {
		req := b.request(pod)
		change(req)
		wantCode(t, b.send(req), name, codes.InvalidArgument)
		b.wantUnchanged(before, name)
	}

	const limit = 4 << 20 // Of gRPC, which the driver leaves as it is.
	req := b.request(pod)
	req.VolumeContext["other"] = strings.Repeat("x", limit-2000)
	req.VolumeContext["other"] += strings.Repeat("x", limit-proto.Size(req))
	wantCode(t, b.send(req), "as much as the server takes", codes.InvalidArgument)
	req.VolumeContext["other"] += "x"
	wantCode(t, b.send(req), "a byte more", codes.ResourceExhausted)
	b.wantUnchanged(before, "messages around the limit")
	b.wantOneLineEach()

	b.Publish(pod)
	b.WantFile(pod, "color", "red")
}

package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

// TestTargetsThatAreNoPlaceForAVolume asks for volumes where no kubelet has them.
func TestTargetsThatAreNoPlaceForAVolume(t *testing.T) {
	t.Parallel()
	b := newHostileBenchWithout(t)
	pod := b.web("web")
	req := b.request(pod)
	right, dir := req.GetTargetPath(), b.Node.KubeletDir()
	targets := map[string]string{
		"beside the kubelet's directory":   filepath.Join(b.outside, "mount"),
		"new beside it":                    filepath.Join(b.outside, "new"),
		"of another kubelet":               dir + "-other/pods/x/mount",
		"the kubelet's directory":          dir,
		"that with a slash":                dir + "/",
		"the directory above":              filepath.Dir(dir),
		"the root":                         "/",
		"up and out":                       dir + "/../outside/mount",
		"up and out from deep":             dir + "/pods/" + string(pod.UID) + "/../../../outside/mount",
		"up and back":                      filepath.Dir(right) + "/../config/mount",
		"up at the end":                    right + "/..",
		"two slashes":                      strings.Replace(right, "/volumes/", "//volumes/", 1),
		"two slashes in front":             "/" + right,
		"a slash at the end":               right + "/",
		"a dot at the end":                 right + "/.",
		"a dot":                            strings.Replace(right, "/volumes/", "/./volumes/", 1),
		"relative":                         strings.TrimPrefix(right, "/"),
		"relative and short":               "mount",
		"relative and up":                  "../../outside/mount",
		"a dot alone":                      ".",
		"a NUL at the end":                 right + "\x00",
		"a NUL in front":                   "\x00" + right,
		"a NUL before what would be wrong": right + "\x00/../../../../../../../outside/mount",
		"too long":                         dir + "/pods/" + string(pod.UID) + strings.Repeat("/volumes", 600),
		"too long by one":                  right + strings.Repeat("/x", (4096-len(right))/2) + strings.Repeat("x", len(right)%2),
		"far too long":                     right + strings.Repeat("/volumes", 100_000),
		"a line break outside":             "/\ntime=now level=INFO msg=forged",
		"nothing":                          "",
	}
	before := b.listing()
	for name, target := range targets {
		req.TargetPath = target
		wantCode(t, b.send(req), name+": publish", codes.InvalidArgument)
		wantCode(t, b.sendUnpublish(req.GetVolumeId(), target), name+": unpublish", codes.InvalidArgument)
		wantCode(t, b.sendStats(req.GetVolumeId(), target), name+": statistics", codes.NotFound, codes.InvalidArgument)
		b.wantUnchanged(before, name)
	}
	b.wantOneLineEach()
}

// TestTargetsBehindLinks has links where the kubelet has directories. Only root can create one there, and root is
// not to be helped to mounts and files elsewhere.
func TestTargetsBehindLinks(t *testing.T) {
	t.Parallel()
	b := newHostileBenchWithout(t)
	home := func(pod *corev1.Pod) string { return filepath.Join(b.Node.KubeletDir(), "pods", string(pod.UID)) }
	victim := b.web("victim")
	tests := map[string]struct{ from, to string }{
		"the volume is outside":         {"volumes/kubernetes.io~csi/config", b.outside + "/config"},
		"nothing yet is outside":        {"volumes/kubernetes.io~csi/config", b.outside},
		"the volumes are outside":       {"volumes/kubernetes.io~csi", b.outside},
		"it leads up":                   {"volumes/kubernetes.io~csi/config", "../../../../../outside/config"},
		"the volume is another pod's":   {"volumes/kubernetes.io~csi/config", filepath.Dir(b.Node.Target(victim, "config"))},
		"the volumes are another pod's": {"volumes", home(victim) + "/volumes"},
		"the pod is another one":        {"", home(victim)},
		"the target is outside":         {"volumes/kubernetes.io~csi/config/mount", b.outside + "/mount"},
		"the target is another pod's":   {"volumes/kubernetes.io~csi/config/mount", b.Node.Target(victim, "config")},
		"the target leads nowhere":      {"volumes/kubernetes.io~csi/config/mount", b.outside + "/new"},
		"the target is a file":          {"volumes/kubernetes.io~csi/config/mount", b.outside + "/canary"},
		"the target is itself":          {"volumes/kubernetes.io~csi/config/mount", "mount"},
	}
	for name, tt := range tests {
		pod := b.web("hostile")
		req := fakekubelet.PublishRequest(b.Node.KubeletDir(), pod, pod.Spec.Volumes[0])
		link := filepath.Join(home(pod), tt.from)
		if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(tt.to, link); err != nil {
			t.Fatal(err)
		}
		b.Publish(victim) // Again where an earlier case has harmed it.
		before := b.listing()
		if err := b.send(req); err == nil {
			t.Errorf("%s: publish succeeded", name)
		}
		b.wantUnchanged(before, name+": publish")
		_ = b.sendUnpublish(req.GetVolumeId(), req.GetTargetPath()) // Whatever it says.
		b.wantUnchanged(before, name+": unpublish")
		wantCode(t, b.sendStats(req.GetVolumeId(), req.GetTargetPath()), name+": statistics", codes.NotFound)
		if got, err := os.ReadFile(b.Path(victim, "color")); environment.Unmarked(string(got)) != "red" {
			t.Errorf("%s: the other pod reads %q, %v", name, got, err)
		}
		unmountBelow(t, b.outside)
	}
}

// TestTheKubeletsDirectoryMayBeBehindALink: on many nodes it is.
func TestTheKubeletsDirectoryMayBeBehindALink(t *testing.T) {
	t.Parallel()
	b := newHostileBenchWithout(t)
	link := filepath.Join(filepath.Dir(b.Node.KubeletDir()), "link")
	if err := os.Symlink("kubelet", link); err != nil {
		t.Fatal(err)
	}
	if err := b.Node.StopDriver(); err != nil {
		t.Fatal(err)
	}
	if err := b.Node.StartDriver(t.Context(), "--kubelet-dir="+link); err != nil {
		t.Fatal(err)
	}
	pod := b.web("web")
	b.request(pod) // For its directory.
	req := fakekubelet.PublishRequest(link, pod, pod.Spec.Volumes[0])
	if err := b.send(req); err != nil {
		t.Fatal(err)
	}
	b.WantFile(pod, "color", "red")
	b.UpdateConfigMap("web", map[string]string{"color": "green"})
	b.WantFile(pod, "color", "green")
	if err := b.sendUnpublish(req.GetVolumeId(), req.GetTargetPath()); err != nil {
		t.Fatal(err)
	}
	b.WantNothing(pod, "after unpublish")
}

// TestTargetsThatAreSomethingElse has what is not the driver's on a target path. This is fault 16.
func TestTargetsThatAreSomethingElse(t *testing.T) {
	t.Parallel()
	b := newHostileBenchWithout(t)
	tests := map[string]func(target string) error{
		"a file": func(target string) error { return os.WriteFile(target, []byte("theirs"), 0o600) },
		"a pipe": func(target string) error { return unix.Mkfifo(target, 0o600) },
		"a directory with a file": func(target string) error {
			return os.CopyFS(target, os.DirFS(b.outside))
		},
		"a file system of somebody": func(target string) error {
			return mountOn(target, "tmpfs", "tmpfs", 0)
		},
		"one that is read-only as ours": func(target string) error {
			return mountOn(target, "theirs", "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
		},
		"a directory of somebody": func(target string) error {
			return mountOn(target, b.outside, "", unix.MS_BIND)
		},
		"a file on a file": func(target string) error {
			if err := os.WriteFile(target, nil, 0o600); err != nil {
				return err
			}
			return unix.Mount(filepath.Join(b.outside, "canary"), target, "", unix.MS_BIND, "")
		},
	}
	for name, put := range tests {
		pod := b.web("hostile")
		req := b.request(pod)
		if err := put(req.GetTargetPath()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := b.listing()
		for range 2 {
			if err := b.send(req); err == nil {
				t.Errorf("%s: publish succeeded", name)
			}
			b.wantUnchanged(before, name+": publish")
			if err := b.sendUnpublish(req.GetVolumeId(), req.GetTargetPath()); err == nil {
				t.Errorf("%s: unpublish succeeded", name)
			}
			b.wantUnchanged(before, name+": unpublish")
		}
		wantCode(t, b.sendStats(req.GetVolumeId(), req.GetTargetPath()), name+": statistics", codes.NotFound)
		unmountBelow(t, b.Node.KubeletDir())
	}
}

func mountOn(target, source, kind string, flags uintptr) error {
	if err := os.Mkdir(target, 0o750); err != nil {
		return err
	}
	return unix.Mount(source, target, kind, flags, "")
}

// TestATargetThatBecomesALinkMeanwhile puts a link on the target's path, or on its parent's, and takes it away again, as
// fast as it can, while a volume is published and unpublished there.
func TestATargetThatBecomesALinkMeanwhile(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(b *hostileBench, target string){
		"the target": func(b *hostileBench, target string) {
			_ = os.Symlink(b.outside+"/mount", target)
			_ = os.Remove(target) // Also the driver's empty directory.
		},
		"its parent": func(b *hostileBench, target string) { exchange(filepath.Dir(target), b.outside+"-link") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHostileBenchWithout(t)
			if err := os.Symlink(b.outside+"/config", b.outside+"-link"); err != nil {
				t.Fatal(err)
			}
			pod := b.web("web")
			req := b.request(pod)
			before, parent := b.listing(), filepath.Dir(req.GetTargetPath())
			outside := b.listingOf(b.outside)

			ctx, cancel := context.WithCancel(t.Context())
			var swaps sync.WaitGroup
			swaps.Go(func() {
				for ctx.Err() == nil {
					swap(b, req.GetTargetPath())
				}
			})
			published := 0
			for round := range 200 {
				if b.send(req) == nil {
					published++
				}
				one := b.listingOf(b.outside)
				_ = b.sendUnpublish(req.GetVolumeId(), req.GetTargetPath())
				if diff := cmp.Diff(outside, one) + cmp.Diff(outside, b.listingOf(b.outside)); diff != "" {
					t.Errorf("round %d: something outside has changed (-before +after):\n%s", round, diff)
					break
				}
			}
			cancel()
			swaps.Wait()
			t.Attr("races/"+strings.ReplaceAll(name, " ", "-")+"/published", fmt.Sprint(published))
			if info, err := os.Lstat(parent); err == nil && info.Mode().Type() == os.ModeSymlink {
				exchange(parent, b.outside+"-link")
			}
			if err := b.sendUnpublish(req.GetVolumeId(), req.GetTargetPath()); err != nil {
				t.Errorf("unpublish when all is quiet: %v", err)
			}
			b.wantUnchanged(before, "when all is quiet")
		})
	}
}

// exchange swaps two names in one step.
func exchange(a, b string) {
	_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

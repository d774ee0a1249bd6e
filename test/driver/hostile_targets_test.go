package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// TestTargetsThatAreNoPlaceForAVolume asks for volumes where no kubelet has them.
// The tests of the node server and of volumefs have further paths, and links.
func TestTargetsThatAreNoPlaceForAVolume(t *testing.T) {
	t.Parallel()
	b := newHostileBenchWithout(t)
	pod := b.web("web")
	req := b.request(pod)
	right, dir := req.GetTargetPath(), b.Node.KubeletDir()
	targets := map[string]string{
		"beside the kubelet's directory":   filepath.Join(b.outside, "mount"),
		"up and out":                       dir + "/../outside/mount",
		"relative":                         strings.TrimPrefix(right, "/"),
		"a NUL at the end":                 right + "\x00",
		"a NUL in front":                   "\x00" + right,
		"a NUL before what would be wrong": right + "\x00/../../../../../../../outside/mount",
		"too long by one":                  right + strings.Repeat("/x", (4096-len(right))/2) + strings.Repeat("x", len(right)%2),
		"far too long":                     right + strings.Repeat("/volumes", 100_000),
		"a line break outside":             "/\ntime=now level=INFO msg=forged",
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

package volumefs_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// mountForeign mounts a tmpfs of that source at target until the test ends.
func mountForeign(t *testing.T, target, from string, flags uintptr) {
	t.Helper()
	expect.NoError(t, unix.Mount(from, target, "tmpfs", flags, "size=64k"))
	t.Cleanup(func() { detach(t, target) })
}

func detach(t *testing.T, target string) {
	t.Helper()
	if err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		t.Errorf("unmount %s: %v", target, err)
	}
}

// checkForeign fails the test unless err names the foreign mount.
func checkForeign(t *testing.T, err error, want volumefs.ForeignMountError) {
	t.Helper()
	var got *volumefs.ForeignMountError
	if !errors.As(err, &got) {
		t.Fatalf("error = %v, want a foreign mount", err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("foreign mount (-want +got):\n%s", diff)
	}
	text := want.Target + " has a foreign mount on it: a " + want.FSType + ` of "` + want.Source + `"`
	if !strings.HasSuffix(err.Error(), text) {
		t.Errorf("error = %q, want it to end with %q", err, text)
	}
}

func TestAForeignMountIsNotTouched(t *testing.T) {
	t.Parallel()
	const ours = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	tests := map[string]struct {
		source string
		flags  uintptr
		opens  error // The answer of Open, which looks at flags alone.
	}{
		"another tmpfs":            {"other", 0, volumefs.ErrNotMounted},
		"one without exec alone":   {"other", unix.MS_NOEXEC | unix.MS_RDONLY, volumefs.ErrNotMounted},
		"one that looks like ours": {"other", ours, nil},
		"a source that begins so":  {source + ".other", 0, volumefs.ErrNotMounted},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			target := g.target("mount")
			mustMake(t, "directory", target)
			mountForeign(t, target, tc.source, tc.flags)
			want := volumefs.ForeignMountError{Target: target, FSType: "tmpfs", Source: tc.source}

			mounted, err := g.Mounted(target)
			checkForeign(t, err, want)
			if mounted {
				t.Error("Mounted = true, want false")
			}
			checkForeign(t, g.Unmount(target), want)
			if err := g.create(t, "one").Publish(target); !errors.Is(err, volumefs.ErrMounted) {
				t.Errorf("Publish = %v, want %v", err, volumefs.ErrMounted)
			}
			view, err := g.Open(target)
			if !errors.Is(err, tc.opens) {
				t.Errorf("Open = %v, want %v", err, tc.opens)
			}
			if view != nil {
				_ = view.Close()
			}
			if n := len(mountsBelow(t, target)); n != 1 {
				t.Errorf("%d mounts at the target, want the foreign one alone", n)
			}
		})
	}
}

// TestUnmountPeelsStackedVolumes is fault 12.
func TestUnmountPeelsStackedVolumes(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	for range 20 { // A driver that does not look mounts over itself.
		expect.NoError(t, unix.Mount(target, target, "", unix.MS_BIND, ""))
	}
	if n := len(mountsBelow(t, target)); n != 21 {
		t.Fatalf("%d mounts at the target, want 21", n)
	}
	update(t, g.FS, target, "two")
	expect.NoError(t, g.Unmount(target))
	checkGone(t, target)
}

func TestUnmountStopsAtAForeignMount(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stack func(t *testing.T, g *ground, target string)
		left  int
	}{
		"ours under a foreign one": {func(t *testing.T, g *ground, target string) {
			t.Helper()
			g.publish(t, target, "one")
			mountForeign(t, target, "other", 0)
		}, 2},
		"ours over a foreign one": {func(t *testing.T, g *ground, target string) {
			t.Helper()
			other := g.target("other")
			g.publish(t, other, "one")
			mustMake(t, "directory", target)
			mountForeign(t, target, "other", 0)
			expect.NoError(t, unix.Mount(other, target, "", unix.MS_BIND, ""))
		}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			target := g.target("mount")
			tc.stack(t, g, target)
			checkForeign(t, g.Unmount(target), volumefs.ForeignMountError{Target: target, FSType: "tmpfs", Source: "other"})
			if n := len(mountsBelow(t, target)); n != tc.left {
				t.Errorf("%d mounts at the target, want %d", n, tc.left)
			}
		})
	}
}

func TestLeftoversUnderAVolumeAreKept(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target := g.target("mount")
	mustMake(t, "full directory", target)
	// Only a mount that somebody else makes can hide what is in a directory.
	other := g.target("other")
	g.publish(t, other, "one")
	expect.NoError(t, unix.Mount(other, target, "", unix.MS_BIND, ""))
	checkMounted(t, g.FS, target, true)
	checkError(t, g.Unmount(target), "unmount volume at "+target+": ", `the directory holds "leftover", which is not ours to delete`)
	checkFile(t, target+"/leftover", "precious")
	checkMounted(t, g.FS, target, false)
}

func TestAMountWhoseTargetHasOddNames(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, name := range []string{"a b", "tab\tnewline\n", `back\slash`, `\040`, "ünï", "#"} {
		target := g.target(name)
		g.publish(t, target, "one")
		checkMounted(t, g.FS, target, true)
		byPath, err := g.SourceByPath(target)
		if byPath != source || err != nil {
			t.Errorf("the mount table has %q, %v at %q, want ours", byPath, err, target)
		}
	}
}

func TestWhatTheKernelDoesNotShow(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	if _, err := g.SourceByPath(g.target("none")); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("no mount in the table: %v, want why it was looked for", err)
	}
	if _, err := g.SourceByPath(g.target("none/below")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no parent: %v, want %v", err, os.ErrNotExist)
	}
}

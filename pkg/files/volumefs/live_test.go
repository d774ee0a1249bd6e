package volumefs_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

func TestARestartedDriverFindsItsVolumes(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	again := g.restart()
	checkMounted(t, again, target, true)
	for content, path := range map[string]string{"two": target, "three": target + "/"} {
		update(t, again, path, content)
		checkFile(t, target+"/key", content)
	}
	expect.NoError(t, again.Unmount(target))
	checkMounted(t, g.FS, target, false)
}

// TestNoVolume is fault 14: it looks for volumes at targets without one, beside files of others, and unmounts the targets. The
// files of others stay.
func TestNoVolume(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ kind, name, refused string }{
		"nothing":          {"nothing", "mount", ""},
		"a directory":      {"directory", "mount", ""},
		"a trailing slash": {"directory", "mount/", ""},
		"below a file":     {"file", "mount/below", ""},
		"below no parent":  {"nothing", "mount/below/far", ""},
		"stale data":       {"full directory", "mount", `the directory holds "leftover"`},
		"a file":           {"file", "mount", "the target is not a directory"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			mustMake(t, tc.kind, g.target("mount"))
			target := g.dir + "/" + tc.name
			checkMounted(t, g.FS, target, false)
			checkNotOpened(t, g.FS, target)
			for range 2 { // Once or more is the same.
				if err := g.Unmount(target); tc.refused != "" {
					checkError(t, err, "unmount volume at "+target+": ", tc.refused)
				} else if err != nil {
					t.Errorf("Unmount = %v, want nil", err)
				}
			}
			switch tc.kind {
			case "full directory":
				checkFile(t, target+"/leftover", "precious")
			case "file":
				checkFile(t, g.target("mount"), "precious")
			default:
				checkGone(t, g.target("mount"))
			}
		})
	}
}

// checkNotOpened fails the test if there is a way into what is at the target; a file is refused for another reason.
func checkNotOpened(t *testing.T, v *volumefs.FS, target string) {
	t.Helper()
	isFile := false
	if info, err := os.Lstat(target); err == nil {
		isFile = info.Mode().IsRegular()
	}
	view, err := v.Open(target)
	if view != nil || (!errors.Is(err, volumefs.ErrNotMounted) && !isFile) {
		t.Errorf("Open = %v, %v, want %v", view, err, volumefs.ErrNotMounted)
	}
	usage, err := v.Usage(target)
	if usage != (volumefs.Usage{}) || (!errors.Is(err, volumefs.ErrNotMounted) && !isFile) {
		t.Errorf("Usage = %+v, %v, want %v", usage, err, volumefs.ErrNotMounted)
	}
}

func TestASymlinkToAVolumeIsNotFollowed(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target, link := g.target("mount"), g.target("link")
	g.publish(t, target, "one")
	expect.NoError(t, os.Symlink(target, link))
	for _, path := range []string{link, link + "/"} {
		if mounted, err := g.Mounted(path); mounted || err == nil {
			t.Errorf("Mounted = %t, %v, want an error", mounted, err)
		}
		if v, err := g.Open(path); err == nil {
			_ = v.Close()
			t.Error("Open followed a symlink")
		}
		if _, err := g.Usage(path); err == nil {
			t.Error("Usage followed a symlink")
		}
		checkError(t, g.Unmount(path), "unmount volume at "+link+": ", "the target is a symbolic link")
	}
	checkFile(t, target+"/key", "one")
	checkMounted(t, g.FS, target, true)
}

func TestRelativeTargetsAreRefused(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	const what = `target path "mount" is not absolute`
	_, err := g.Open("mount")
	checkError(t, err, "open volume at mount: ", what)
	_, err = g.Mounted("mount")
	checkError(t, err, "look for volume at mount: ", what)
	_, err = g.Usage("mount")
	checkError(t, err, "get usage of volume at mount: ", what)
	checkError(t, g.Unmount("mount"), "unmount volume", what)
	checkError(t, g.create(t, "one").Publish("mount"), "publish volume: ", what)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	before, err := g.Usage(target)
	expect.NoError(t, err)
	if l := limits(); before.BytesTotal != l.Bytes || before.InodesTotal != l.Inodes {
		t.Errorf("Usage = %+v, want the totals of %+v", before, l)
	}
	if before.InodesUsed != 2 || before.BytesUsed < 3 {
		t.Errorf("Usage = %+v, want the root directory, one file and its bytes", before)
	}
	update(t, g.FS, target, string(make([]byte, 100_000)))
	after, err := g.Usage(target)
	expect.NoError(t, err)
	if after.BytesUsed < 100_000 || after.InodesUsed != 2 {
		t.Errorf("Usage = %+v after 100 kB were written", after)
	}
	for _, u := range []volumefs.Usage{before, after} {
		if u.BytesUsed+u.BytesFree != u.BytesTotal || u.InodesUsed+u.InodesFree != u.InodesTotal {
			t.Errorf("Usage = %+v, want used and free to make the total", u)
		}
	}
}

func TestManyTargetsAtOnce(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	var group errgroup.Group
	for i := range 24 {
		group.Go(func() error { return liveAndDie(g.FS, g.target(fmt.Sprintf("mount-%d", i)), fmt.Sprint(i)) })
	}
	expect.NoError(t, group.Wait())
}

// liveAndDie takes one target through the lives of three volumes.
func liveAndDie(v *volumefs.FS, target, content string) error {
	for range 3 {
		if err := live(v, target, content); err != nil {
			return err
		}
		if mounted, err := v.Mounted(target); mounted || err != nil {
			return fmt.Errorf("Mounted(%s) after Unmount = %t, %w", target, mounted, err)
		}
	}
	return nil
}

func live(v *volumefs.FS, target, content string) (err error) {
	view, err := v.Create(limits())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close(), v.Unmount(target)) }()
	if err := view.Publish(target); err != nil {
		return err
	}
	for range 5 {
		open, err := v.Open(target)
		if err != nil {
			return err
		}
		err = os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/key", open.Dir.Fd()), []byte(content), 0o600)
		if err := errors.Join(err, open.Close()); err != nil {
			return err
		}
		got, err := os.ReadFile(target + "/key")
		if string(got) != content || err != nil {
			return fmt.Errorf("%s/key = %q, %w, want %q", target, got, err, content)
		}
	}
	return nil
}

// TestAViewThatIsKept: a cached view reports cheaply whether it leads to what is mounted, and can be written through.
func TestAViewThatIsKept(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target, other := g.target("mount"), g.target("other")
	made := g.create(t, "one")
	checkAt(t, g, made, target, false)
	g.unmountAtEnd(t, target)
	expect.NoError(t, made.Publish(target))
	checkAt(t, g, made, target, true)
	g.publish(t, other, "another")
	kept, err := g.Open(target)
	expect.NoError(t, err)
	defer kept.Close()
	for _, content := range []string{"two", "three"} {
		checkAt(t, g, kept, target, true)
		put(t, kept, "key", content)
		checkFile(t, target+"/key", content)
	}
	checkAt(t, g, kept, target+"/", true)
	for _, elsewhere := range []string{other, g.dir, target + "/key", g.target("nothing"), "mount"} {
		checkAt(t, g, kept, elsewhere, false)
	}
	if usage, err := kept.Usage(); err != nil || usage.InodesUsed != 2 {
		t.Errorf("Usage = %+v, %v, want a directory and a file", usage, err)
	}
	expect.NoError(t, kept.Close())
	if usage, err := kept.Usage(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Usage of a closed view = %+v, %v, want that it is closed", usage, err)
	}
}

// TestAViewThatIsKeptTooLong: it leads to no other volume that comes to the same place.
func TestAViewThatIsKeptTooLong(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	kept, err := g.Open(target)
	expect.NoError(t, err)
	defer kept.Close()
	expect.NoError(t, g.Unmount(target))
	checkAt(t, g, kept, target, false)
	for range 20 {
		g.publish(t, target, "two")
		checkAt(t, g, kept, target, false)
		expect.NoError(t, g.Unmount(target))
	}
	put(t, kept, "key", "nobody sees it")
}

func checkAt(t *testing.T, g *ground, v *volumefs.View, target string, want bool) {
	t.Helper()
	got := g.IsAt(target, v.Mount())
	if isRight := got == want; !isRight {
		t.Errorf("IsAt(%s) = %t, want %t", target, got, want)
	}
}

package volumefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// mustMakeAll makes directories, those above included, and returns the path.
func mustMakeAll(t *testing.T, path string) string {
	t.Helper()
	expect.NoError(t, os.MkdirAll(path, 0o755))
	return path
}

// mustLink makes a link at a path, whose directory it makes as well.
func mustLink(t *testing.T, to, path string) {
	t.Helper()
	mustMakeAll(t, filepath.Dir(path))
	expect.NoError(t, os.Symlink(to, path))
}

// checkLink fails the test unless err reports that path is a link, and names the target once.
func checkLink(t *testing.T, what string, err error, path string) {
	t.Helper()
	var link *volumefs.SymlinkError
	if !errors.As(err, &link) || link.Path != path {
		t.Errorf("%s = %v, want a link at %s", what, err, path)
		return
	}
	where := path
	if path == link.Target {
		where = "the target"
	}
	want := ": " + where + " is a symbolic link, which is not followed: remove it, or have a bind mount in its place"
	if !strings.HasSuffix(err.Error(), want) || strings.Count(err.Error(), link.Target) != 1 {
		t.Errorf("%s = %q, want it to name the target and to end with %q", what, err, want)
	}
}

// checkLinkRefused makes every call for a target and fails the test unless each reports that path is a link.
func checkLinkRefused(t *testing.T, g *ground, target, path string) {
	t.Helper()
	checkLink(t, "Publish", g.create(t, "mine").Publish(target), path)
	mounted, err := g.Mounted(target)
	checkLink(t, "Mounted", err, path)
	if mounted {
		t.Error("Mounted = true, want false")
	}
	_, err = g.Open(target)
	checkLink(t, "Open", err, path)
	_, err = g.Usage(target)
	checkLink(t, "Usage", err, path)
	checkLink(t, "Unmount", g.Unmount(target), path)
}

// listing returns what is in a directory, with every mount.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{"mounts": strings.Join(mountsBelow(t, dir), "\n")}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		found[path] = entry.Type().String()
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		found[path] += fmt.Sprintf(", inode %d", st.Ino)
		return nil
	})
	expect.NoError(t, err)
	return found
}

func checkUnchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
		t.Errorf("%s has changed (-before +after):\n%s", dir, diff)
	}
}

func elements() []string { return []string{"pods", "mine", "volumes", "config", "mount"} }

// rest returns the path of what follows where the element of that number leads.
func rest(to string, number int) string {
	return filepath.Join(append([]string{to}, elements()[number+1:]...)...)
}

// destinations are all that a link in place of an element could lead to. Each makes it, outside or below the ground's
// directory, and returns what to write into the link.
func destinations() map[string]func(t *testing.T, g *ground, outside string, number int) string {
	return map[string]func(t *testing.T, g *ground, outside string, number int) string{
		"another pod's volume": func(t *testing.T, g *ground, _ string, number int) string {
			t.Helper()
			volume := rest(g.target("theirs"), number)
			mustMakeAll(t, filepath.Dir(volume))
			g.publish(t, volume, "theirs")
			return g.target("theirs")
		},
		"that by a relative path": func(t *testing.T, g *ground, _ string, number int) string {
			t.Helper()
			volume := rest(g.target("theirs/x"), number)
			mustMakeAll(t, filepath.Dir(volume))
			g.publish(t, volume, "theirs")
			return strings.Repeat("../", number) + "theirs/x"
		},
		"an empty directory outside": func(t *testing.T, _ *ground, outside string, number int) string {
			t.Helper()
			mustMakeAll(t, rest(outside, number))
			return outside
		},
		"nothing yet outside": func(t *testing.T, _ *ground, outside string, number int) string {
			t.Helper()
			mustMakeAll(t, filepath.Dir(rest(outside+"/x", number)))
			return outside + "/x"
		},
		"nowhere":        func(_ *testing.T, _ *ground, outside string, _ int) string { return outside + "/none" },
		"itself":         func(_ *testing.T, _ *ground, _ string, number int) string { return elements()[number] },
		"where it is":    func(*testing.T, *ground, string, int) string { return "." },
		"a magic link":   func(*testing.T, *ground, string, int) string { return "/proc/self/cwd" },
		"the root again": func(_ *testing.T, g *ground, _ string, _ int) string { return g.dir },
	}
}

// TestNoLinkIsFollowedToATarget has a link in each place on the way to a target, and in the target's.
func TestNoLinkIsFollowedToATarget(t *testing.T) {
	t.Parallel()
	for kind, destination := range destinations() {
		for i, element := range elements() {
			t.Run(element+" leads to "+kind, func(t *testing.T) {
				t.Parallel()
				g := newGround(t)
				outside, target := t.TempDir(), filepath.Join(g.dir, filepath.Join(elements()...))
				path := g.target(filepath.Join(elements()[:i+1]...))
				mustLink(t, destination(t, g, outside, i), path)
				before, beforeOutside := listing(t, g.dir), listing(t, outside)
				checkLinkRefused(t, g, target, path)
				checkLinkRefused(t, g, target+"/", path)
				checkUnchanged(t, g.dir, before)
				checkUnchanged(t, outside, beforeOutside)
			})
		}
	}
}

// TestTheFirstOfManyLinksIsNamed: it is the one to begin with.
func TestTheFirstOfManyLinksIsNamed(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	dir := mustMakeAll(t, g.target("pods/real/volumes/real"))
	mustLink(t, "real", g.target("pods/mine"))
	mustLink(t, "real", g.target("pods/real/volumes/config"))
	mustLink(t, dir, dir+"/mount")
	checkLinkRefused(t, g, g.target("pods/mine/volumes/config/mount"), g.target("pods/mine"))
	checkLinkRefused(t, g, g.target("pods/real/volumes/config/mount"), g.target("pods/real/volumes/config"))
	checkLinkRefused(t, g, dir+"/mount", dir+"/mount")
}

// TestALinkPlantedAfterPublish: while the link is there, nothing is done; when it is gone, all goes on.
func TestALinkPlantedAfterPublish(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	mine, theirs := mustMakeAll(t, g.target("mine")), mustMakeAll(t, g.target("theirs"))
	g.publish(t, theirs+"/mount", "theirs")
	g.publish(t, mine+"/mount", "one")
	expect.NoError(t, os.Rename(mine, g.target("moved")))
	mustLink(t, theirs, mine)
	before := listing(t, g.dir)
	for range 2 {
		checkLinkRefused(t, g, mine+"/mount", mine)
	}
	checkUnchanged(t, g.dir, before)
	checkFile(t, g.target("moved/mount/key"), "one")

	expect.NoError(t, os.Remove(mine))
	checkMounted(t, g.FS, mine+"/mount", false)
	checkNotOpened(t, g.FS, mine+"/mount")
	expect.NoError(t, os.Rename(g.target("moved"), mine))
	checkMounted(t, g.FS, mine+"/mount", true)
	update(t, g.FS, mine+"/mount", "two")
	checkFile(t, mine+"/mount/key", "two")
	expect.NoError(t, g.Unmount(mine+"/mount"))
	checkGone(t, mine+"/mount")
	checkFile(t, theirs+"/mount/key", "theirs")
}

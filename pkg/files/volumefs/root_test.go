package volumefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// TestTheRootMayBeBehindALink: on many nodes it is.
func TestTheRootMayBeBehindALink(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"the root is a link":                 "link",
		"it lies behind one":                 "link/kubelet",
		"both":                               "link/kubelet/link",
		"the root ends with a slash":         "real/",
		"there is no link, and all is plain": "real",
	}
	for name, root := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			mustMakeAll(t, g.target("real/kubelet"))
			mustLink(t, "real", g.target("link"))
			mustLink(t, g.target("real/kubelet"), g.target("real/kubelet/link"))
			v := g.below(g.dir + "/" + root)
			expect.NoError(t, v.Check())
			for _, below := range []string{"mount", "pods/mount", "pods/x/mount"} {
				target := filepath.Join(g.dir, root, below)
				mustMakeAll(t, filepath.Dir(target))
				expect.NoError(t, liveAndDie(v, target, "one"))
				checkGone(t, target)
			}
		})
	}
}

func TestTargetsThatAreNotBelowTheRoot(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	root := mustMakeAll(t, g.target("root"))
	mustMakeAll(t, g.target("root-other"))
	mustLink(t, root, g.target("link"))
	v := g.below(root)
	before := listing(t, g.dir)
	for name, target := range map[string]string{
		"the root":                    root,
		"the root with a slash":       root + "/",
		"a directory that begins so":  root + "-other/mount",
		"the directory above":         g.dir,
		"up and out":                  root + "/../mount",
		"the same place, by its link": g.target("link/mount"),
		"the whole file system":       "/",
	} {
		what := `target path "` + filepath.Clean(target) + `" is not below ` + root
		_, err := v.Mounted(target)
		checkError(t, err, "look for volume at ", what)
		if !errors.Is(err, volumefs.ErrOutside) {
			t.Errorf("%s: Mounted = %v, want %v", name, err, volumefs.ErrOutside)
		}
		_, err = v.Open(target)
		checkError(t, err, "open volume at ", what)
		_, err = v.Usage(target)
		checkError(t, err, "get usage of volume at ", what)
		checkError(t, v.Unmount(target), "unmount volume at ", what)
		view, err := v.Create(limits())
		expect.NoError(t, err)
		checkError(t, view.Publish(target), "publish volume at ", what)
		if err := view.Close(); err != nil {
			t.Errorf("%s: Close = %v", name, err)
		}
	}
	checkUnchanged(t, g.dir, before)
}

// TestNoPathLeavesTheRoot: the kernel sees to it as well.
func TestNoPathLeavesTheRoot(t *testing.T) {
	t.Parallel()
	dir, err := os.Open(t.TempDir())
	expect.NoError(t, err)
	defer dir.Close()
	for _, path := range []string{"..", "../..", "./..", "/", dir.Name(), "/proc/self/root"} {
		if err := volumefs.OpenBeneath(dir, path); !errors.Is(err, unix.EXDEV) {
			t.Errorf("open %s below a directory = %v, want %v", path, err, unix.EXDEV)
		}
	}
	if err := volumefs.OpenBeneath(dir, "."); err != nil {
		t.Errorf("open the directory itself = %v", err)
	}
}

// TestARootThatIsMissing: a check reports it, and an unmount succeeds, since without the root there is no target.
func TestARootThatIsMissing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ kind, root, want string }{
		"nothing":      {"nothing", "root", "no such file or directory"},
		"a file":       {"file", "root", "not a directory"},
		"below a file": {"file", "root/below", "not a directory"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			mustMake(t, tc.kind, g.target("root"))
			v := g.below(g.target(tc.root))
			checkError(t, v.Check(), "check where volumes go: ", tc.want)
			for _, target := range []string{g.target(tc.root + "/mount"), g.target(tc.root + "/pods/mount")} {
				checkMounted(t, v, target, false)
				checkNotOpened(t, v, target)
				if err := v.Unmount(target); err != nil {
					t.Errorf("Unmount = %v, want nil", err)
				}
				view, err := v.Create(limits())
				expect.NoError(t, err)
				if err := view.Publish(target); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
					t.Errorf("Publish = %v, want it to miss the directory", err)
				}
				_ = view.Close()
			}
		})
	}
}

func TestARootThatIsNotAbsolute(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, root := range []string{"", "relative"} {
		_, err := g.below(root).Mounted(g.target("mount"))
		checkError(t, err, "look for volume at ", "is not absolute")
		checkError(t, g.below(root).Unmount(g.target("mount")), "unmount volume at ", "is not absolute")
		checkError(t, g.below(root).Check(), "check where volumes go: ", "is not absolute")
	}
}

// TestTheRootIsLookedUpEachTime has the root replaced under a driver that runs.
func TestTheRootIsLookedUpEachTime(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	root := mustMakeAll(t, g.target("root"))
	v := g.below(root)
	expect.NoError(t, liveAndDie(v, root+"/mount", "one"))
	expect.NoError(t, os.Rename(root, g.target("old")))
	mustMakeAll(t, root)
	expect.NoError(t, liveAndDie(v, root+"/mount", "two"))
}

func TestARootThatIsMountedOver(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	root := mustMakeAll(t, g.target("root"))
	v := g.below(root)
	expect.NoError(t, liveAndDie(v, root+"/mount", "one"))
	mountForeign(t, root, "kubelet", 0)
	expect.NoError(t, liveAndDie(v, root+"/mount", "two"))
	// A mount below the root is as good a place.
	disk := mustMakeAll(t, root+"/pods/disk")
	mountForeign(t, disk, "disk", 0)
	expect.NoError(t, liveAndDie(v, disk+"/mount", "three"))
}

// TestTheMountTableBehindALink: it has paths without links.
func TestTheMountTableBehindALink(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	mustMakeAll(t, g.target("real/pods"))
	mustLink(t, "real", g.target("link"))
	g.publish(t, g.target("real/pods/mount"), "one")
	behind := &ground{FS: g.below(g.target("link"))}
	if got, err := behind.SourceByPath(g.target("link/pods/mount")); got != source || err != nil {
		t.Errorf("the mount table has %q, %v, want ours", got, err)
	}
}

// TestTheDirectoryOfTargetsIsALink: in a container, its target does not exist. Check and Publish print the same, with what to
// type.
func TestTheDirectoryOfTargetsIsALink(t *testing.T) {
	t.Parallel()
	for name, relative := range map[string]bool{"by its path": false, "by a relative path": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			disk := mustMakeAll(t, g.target("disk/pods"))
			to := disk
			if relative {
				to = "../disk/pods"
			}
			mustLink(t, to, g.target("kubelet/pods"))
			pods := g.target("kubelet/pods")
			v := volumefs.New(volumefs.Config{Root: g.target("kubelet"), Dir: "pods", Source: source})
			want := pods + " is a symbolic link to " + disk + ", which is not followed: remove it, or have a bind mount in its " +
				"place (`mount --bind " + disk + " " + pods + "` on the node), or start the kubelet with another --root-dir and " +
				"set the chart's value kubeletDir to that directory"
			checkError(t, v.Check(), "check where volumes go: ", want)
			view, err := v.Create(limits())
			expect.NoError(t, err)
			checkError(t, view.Publish(pods+"/mine/mount"), "publish volume at "+pods+"/mine/mount: ", want)
			expect.NoError(t, view.Close())

			expect.NoError(t, os.Remove(pods))
			expect.NoError(t, v.Check()) // The kubelet makes it.
			mustMakeAll(t, pods+"/mine")
			expect.NoError(t, v.Check())
			expect.NoError(t, liveAndDie(v, pods+"/mine/mount", "one"))
		})
	}
}

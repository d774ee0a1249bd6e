package atomicdir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// mountPoints of the tests: in the root, beside files of a directory, and deep in directories that nothing else needs.
func mountPoints() []string { return []string{"a/m", "n", "p/q/r"} }

func (f files) around(t testing.TB, points ...string) tree.Tree {
	t.Helper()
	want := f.tree(t)
	want.MountPoints = points
	return want
}

// wantMountPoints checks that each is an empty directory that no link leads to, and returns their inodes.
func wantMountPoints(t *testing.T, dir string, points []string) (inodes []uint64) {
	t.Helper()
	for _, p := range points {
		for d := p; d != "."; d = filepath.Dir(d) {
			info, err := os.Lstat(filepath.Join(dir, d))
			expect.NoError(t, err)
			if !info.IsDir() || info.Mode().Perm() != 0o755 {
				t.Errorf("%s is %v, want a directory of mode 0755", d, info.Mode())
			}
			inodes = append(inodes, inode(t, dir, d))
		}
		list, err := os.ReadDir(filepath.Join(dir, p))
		expect.NoError(t, err)
		if len(list) > 0 {
			t.Errorf("%s has %v, want nothing", p, list)
		}
	}
	return inodes
}

// wantFiles checks that readers see exactly the files of the tree, through links or not.
func wantFiles(t *testing.T, dir string, want tree.Tree) {
	t.Helper()
	seen := map[string]string{}
	var walk func(name string)
	walk = func(name string) {
		list, err := os.ReadDir(filepath.Join(dir, name))
		expect.NoError(t, err)
		for _, e := range list {
			at := filepath.Join(name, e.Name())
			info, err := os.Stat(filepath.Join(dir, at))
			expect.NoError(t, err)
			switch {
			case name == "." && len(e.Name()) > 2 && e.Name()[:2] == "..":
			case info.IsDir():
				walk(at)
			default:
				data, err := os.ReadFile(filepath.Join(dir, at))
				expect.NoError(t, err)
				seen[at] = string(data)
			}
		}
	}
	walk(".")
	wanted := map[string]string{}
	for _, f := range want.Files {
		wanted[f.Path] = string(f.Data)
	}
	if diff := cmp.Diff(wanted, seen); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestMountPointsOutliveUpdates: what a container has mounted goes with the inode of the directory.
func TestMountPointsOutliveUpdates(t *testing.T) {
	t.Parallel()
	steps := []files{
		{"a/x": "1", "a/y/z": "1", "b": "1", "p/q/s": "1"},
		{"a/x": "2", "a/y/z": "2", "b": "2", "p/q/s": "2"},
		{"a/w": "3", "c": "3"},
		{},
		{"a/x": "4", "p/t": "4", "p/q/u/v": "4"},
		{"a/x/deep": "5", "a/y": "5"},
	}
	for name, w := range writers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			var before []uint64
			for i, step := range steps {
				want := step.around(t, mountPoints()...)
				mustWrite(t, w, root, want)
				wantFiles(t, dir, want)
				inodes := wantMountPoints(t, dir, mountPoints())
				if i > 0 && !slices.Equal(inodes, before) {
					t.Errorf("step %d: the inodes of mount points are %d, want %d as before", i, inodes, before)
				}
				before = inodes
				if changed := mustWrite(t, w, root, want); changed {
					t.Errorf("step %d: a second write changed something", i)
				}
			}
		})
	}
}

// TestMountPointsOfANewVolume: the links of a directory that nobody sees yet get their final names at once.
func TestMountPointsOfANewVolume(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	known := &atomicdir.Known{}
	want := files{"a/x": "1", "b": "1"}.around(t, mountPoints()...)
	mustWrite(t, atomicdir.Atomic{IsNew: true, Known: known}, root, want)
	wantFiles(t, dir, want)
	before := wantMountPoints(t, dir, mountPoints())
	next := files{"a/y": "2", "b": "2"}.around(t, mountPoints()...)
	mustWrite(t, atomicdir.Atomic{Differs: true, Known: known}, root, next)
	wantFiles(t, dir, next)
	if after := wantMountPoints(t, dir, mountPoints()); !slices.Equal(before, after) {
		t.Errorf("the inodes of mount points are %d, want %d as before", after, before)
	}
}

// TestMountPointsHeal: a container with too many rights has changed them.
func TestMountPointsHeal(t *testing.T) {
	t.Parallel()
	damages := map[string]func(d dirOf){
		"removed":          func(d dirOf) { d.remove("a/m") },
		"the one above":    func(d dirOf) { d.remove("a") },
		"a file in it":     func(d dirOf) { d.write("a/m/junk", "junk") },
		"a file beside it": func(d dirOf) { d.write("p/q/junk", "junk") },
		"a file in its place": func(d dirOf) {
			d.remove("n")
			d.write("n", "junk")
		},
		"a link in its place": func(d dirOf) {
			d.remove("p")
			d.link("..data/b", "p")
		},
		"another mode": func(d dirOf) { d.chmod("n", 0o700) },
	}
	for name, w := range writers() {
		for what, damage := range damages {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				dir, root := newVolume(t)
				want := files{"a/x": "1", "b": "1", "p/q/s": "1"}.around(t, mountPoints()...)
				mustWrite(t, w, root, want)
				damage(dirOf{t: t, dir: dir})
				mustWrite(t, w, root, want)
				wantFiles(t, dir, want)
				wantMountPoints(t, dir, mountPoints())
			})
		}
	}
}

// TestMountPointsHaveTheirOwnMode whatever directories of an fsGroup have.
func TestMountPointsHaveTheirOwnMode(t *testing.T) {
	t.Parallel()
	for name, w := range writers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			want := files{"a/x": "1"}.around(t, "a/m")
			want.DirMode = 0o775 | fs.ModeSetgid
			mustWrite(t, w, root, want)
			for path, mode := range map[string]fs.FileMode{"a": want.DirMode | fs.ModeDir, "a/m": 0o755 | fs.ModeDir} {
				info, err := os.Lstat(filepath.Join(dir, path))
				expect.NoError(t, err)
				if info.Mode() != mode {
					t.Errorf("%s has mode %v, want %v", path, info.Mode(), mode)
				}
			}
			if changed := mustWrite(t, w, root, want); changed {
				t.Error("a second write changed something")
			}
		})
	}
}

// TestStopAnywhereAroundMountPoints: an update that is stopped at any change leaves mount points alone, and the next heals it.
func TestStopAnywhereAroundMountPoints(t *testing.T) {
	t.Parallel()
	for name, w := range writers() {
		for how := range stops() {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				reached := true
				for n := 0; reached; n++ {
					reached = false
					dir, root := newVolume(t)
					mustWrite(t, w, root, files{"a/x": "1", "a/y/z": "1", "b": "1"}.around(t, mountPoints()...))
					before := wantMountPoints(t, dir, mountPoints())
					next := files{"a/w": "22", "a/y/z": "2", "b": "22", "p/q/s": "2"}.around(t, mountPoints()...)
					_ = writeStopped(stopping(w, how, n, &reached), root, next)
					mustWrite(t, w, root, next)
					wantFiles(t, dir, next)
					if after := wantMountPoints(t, dir, mountPoints()); !slices.Equal(before, after) {
						t.Fatalf("stopped at %d: the inodes are %d, want %d", n, after, before)
					}
				}
			})
		}
	}
}

// TestRefuseMountPoints that are no places in the volume, or in the way of a file.
func TestRefuseMountPoints(t *testing.T) {
	t.Parallel()
	for name, points := range map[string][]string{
		"at a file": {"a/x"}, "above": {"a"}, "below": {"a/x/y"}, "reserved": {"..data"}, "outside": {"../x"}, "the root": {"."},
		"not sorted": {"z", "y"},
	} {
		for kind, w := range writers() {
			_, root := newVolume(t)
			if _, err := w.Write(root, files{"a/x": "1"}.around(t, points...)); err == nil {
				t.Errorf("%s: %s writes it, want an error", name, kind)
			}
		}
	}
}

package volumefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

// source is the source of every mount that is ours in these tests.
const source = "csi.example.test"

// limits are ample for what the tests write.
func limits() volumefs.Limits { return volumefs.Limits{Bytes: 1 << 20, Inodes: 64} }

// ground is where one test makes its volumes.
type ground struct {
	*volumefs.FS

	// dir is where targets go.
	dir string
	// restart returns what a driver that is started again has, and below one that looks for targets below another
	// directory than the ground's.
	restart func() *volumefs.FS
	below   func(root string) *volumefs.FS
}

// target returns a path in the ground at which there is nothing yet.
func (g *ground) target(name string) string { return filepath.Join(g.dir, name) }

// newGround returns a ground of kernel mounts, on which nothing may be mounted any more when the test ends.
func newGround(t *testing.T) *ground {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if left := mountsBelow(t, dir); len(left) > 0 {
			t.Errorf("still mounted at the end of the test:\n%s", strings.Join(left, "\n"))
		}
	})
	below := func(root string) *volumefs.FS { return volumefs.New(volumefs.Config{Root: root, Source: source}) }
	restart := func() *volumefs.FS { return below(dir) }
	return &ground{FS: restart(), dir: dir, restart: restart, below: below}
}

// published returns a ground, and the target of a volume on it.
func published(t *testing.T) (g *ground, target string) {
	t.Helper()
	g = newGround(t)
	target = g.target("mount")
	g.publish(t, target, "one")
	return g, target
}

// mountsBelow returns the lines of the mount table about dir and what is below it.
func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	expect.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(table)) {
		at := strings.Fields(line)[4]
		if at == dir || strings.HasPrefix(at, dir+"/") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// create returns an unpublished volume that holds one file, key.
func (g *ground) create(t *testing.T, content string) *volumefs.View {
	t.Helper()
	v, err := g.Create(limits())
	expect.NoError(t, err)
	t.Cleanup(func() { _ = v.Close() })
	put(t, v, "key", content)
	return v
}

// publish makes a volume with one file, key, at target. It is unmounted at the end of the test.
func (g *ground) publish(t *testing.T, target, content string) {
	t.Helper()
	v := g.create(t, content)
	expect.NoError(t, v.Publish(target))
	g.unmountAtEnd(t, target)
	expect.NoError(t, v.Close())
}

func (g *ground) unmountAtEnd(t *testing.T, target string) {
	t.Helper()
	t.Cleanup(func() {
		if err := g.Unmount(target); err != nil {
			t.Error(err)
		}
	})
}

func update(t *testing.T, v *volumefs.FS, target, content string) {
	t.Helper()
	view, err := v.Open(target)
	expect.NoError(t, err)
	put(t, view, "key", content)
	expect.NoError(t, view.Close())
}

func put(t *testing.T, v *volumefs.View, name, content string) {
	t.Helper()
	expect.NoError(t, rootOf(t, v).WriteFile(name, []byte(content), 0o644))
}

func checkFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); string(got) != want || err != nil {
		t.Errorf("%s = %q, %v, want %q", path, got, err, want)
	}
}

func checkMounted(t *testing.T, v *volumefs.FS, target string, want bool) {
	t.Helper()
	got, err := v.Mounted(target)
	if isRight := got == want && err == nil; !isRight {
		t.Errorf("Mounted(%s) = %t, %v, want %t", target, got, err, want)
	}
}

func checkGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there (%v), want nothing", path, err)
	}
}

// checkError fails the test unless err begins with what was being done and names what is wrong.
func checkError(t *testing.T, err error, doing, what string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), doing) || !strings.Contains(err.Error(), what) {
		t.Errorf("error = %v, want %q to begin with and %q in it", err, doing, what)
	}
}

// mustMake makes a directory, a file with the content «precious», or a symlink to a directory, as the kind names.
func mustMake(t *testing.T, kind, path string) {
	t.Helper()
	var err error
	switch kind {
	case "nothing":
	case "directory":
		err = os.Mkdir(path, 0o755)
	case "file":
		err = os.WriteFile(path, []byte("precious"), 0o600)
	case "full directory":
		err = errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "leftover"), []byte("precious"), 0o600))
	case "symlink":
		err = os.Symlink(t.TempDir(), path)
	default:
		t.Fatalf("nothing is known about a %s", kind)
	}
	expect.NoError(t, err)
}

// rootOf returns the directory of a view with the methods of package os.
func rootOf(t *testing.T, v *volumefs.View) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", v.Dir.Fd()))
	expect.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

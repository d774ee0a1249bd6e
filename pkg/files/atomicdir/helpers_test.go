package atomicdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// umaskVariable, when set, holds a umask for the test process, in octal, under which nothing comes out right by itself.
const umaskVariable = "ATOMICDIR_TEST_UMASK"

// diskVariable holds the directory for temporary files that the test process was started with.
const diskVariable = "ATOMICDIR_TEST_DISK"

func TestMain(m *testing.M) {
	if text := os.Getenv(umaskVariable); text != "" {
		umask, err := strconv.ParseInt(text, 8, 0)
		if err != nil {
			panic(err)
		}
		unix.Umask(int(umask))
		os.Exit(m.Run())
	}
	os.Exit(mountns.Main(onTmpfs{m}))
}

// onTmpfs runs tests with their temporary directories on a tmpfs, as volumes are.
type onTmpfs struct{ *testing.M }

func (o onTmpfs) Run() int {
	dir, err := os.MkdirTemp("", "atomicdir")
	if err == nil {
		defer os.Remove(dir)
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "")
	}
	if err == nil {
		defer unix.Unmount(dir, unix.MNT_DETACH)
		err = errors.Join(os.Setenv(diskVariable, os.TempDir()), os.Setenv("TMPDIR", dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a tmpfs for the tests:", err)
		return 1
	}
	return o.M.Run()
}

func writers() map[string]atomicdir.Writer {
	return map[string]atomicdir.Writer{
		"Atomic":  atomicdir.Atomic{},
		"Replace": atomicdir.Replace{},
		"InPlace": atomicdir.InPlace{},
	}
}

// files maps paths to contents. A content may start with a mode: «0400:bytes».
type files map[string]string

func (f files) tree(t testing.TB) tree.Tree {
	t.Helper()
	var list []tree.File
	for _, p := range slices.Sorted(maps.Keys(f)) {
		file := tree.File{Path: p, Data: []byte(f[p]), Mode: 0o644}
		if octal, data, ok := strings.Cut(f[p], ":"); ok {
			mode, err := strconv.ParseUint(octal, 8, 9)
			if err != nil {
				t.Fatalf("mode of %s: %v", p, err)
			}
			file.Mode, file.Data = fs.FileMode(mode), []byte(data)
		}
		list = append(list, file)
	}
	made, err := tree.New(list)
	if err != nil {
		t.Fatalf("tree.New(%v): %v", f, err)
	}
	return made
}

func openRoot(t testing.TB, dir string) *os.File {
	t.Helper()
	root, err := os.Open(dir)
	expect.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

// readDeep reads a file whose path may be longer than a system call takes.
func readDeep(t testing.TB, dir, path string) ([]byte, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	expect.NoError(t, err)
	defer root.Close()
	return root.ReadFile(path)
}

// newVolume returns a new empty directory and its root.
func newVolume(t testing.TB) (dir string, root *os.File) {
	t.Helper()
	dir = t.TempDir()
	return dir, openRoot(t, dir)
}

// mustWrite writes and returns what Write returns about changes.
func mustWrite(t testing.TB, w atomicdir.Writer, root *os.File, want tree.Tree) (changed bool) {
	t.Helper()
	changed, err := w.Write(root, want)
	if err != nil {
		t.Fatalf("%T.Write: %v", w, err)
	}
	return changed
}

// view is what a user of the volume sees: every path below the names without leading dots, following links, with
// kind, mode, owner and content.
type view map[string]string

func wantView(want tree.Tree) view {
	v := view{}
	for _, d := range append(want.Dirs(), ".") {
		v[d] = fmt.Sprintf("%v %d:%d", want.DirMode|fs.ModeDir, want.UID, want.GID)
	}
	for _, f := range want.Files {
		v[f.Path] = fmt.Sprintf("%v %d:%d %s", f.Mode, want.UserOf(f), want.GID, f.Data)
	}
	return v
}

// see returns the view of the volume at dir. It fails on a name that is listed but leads nowhere.
func see(t testing.TB, dir string) view {
	t.Helper()
	v := view{}
	v.add(t, dir, ".")
	list, err := os.ReadDir(dir)
	expect.NoError(t, err)
	for _, d := range list {
		if !strings.HasPrefix(d.Name(), "..") {
			v.walk(t, dir, d.Name())
		}
	}
	return v
}

func (v view) walk(t testing.TB, dir, name string) {
	t.Helper()
	if !v.add(t, dir, name) {
		return
	}
	list, err := os.ReadDir(filepath.Join(dir, name))
	expect.NoError(t, err)
	for _, d := range list {
		v.walk(t, dir, filepath.Join(name, d.Name()))
	}
}

// add enters name and reports whether it is a directory.
func (v view) add(t testing.TB, dir, name string) bool {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		t.Fatalf("a listed name cannot be opened: %v", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("no owner for %s", name)
	}
	v[name] = fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
	if info.Mode().IsRegular() {
		data, err := os.ReadFile(filepath.Join(dir, name))
		expect.NoError(t, err)
		v[name] += " " + string(data)
	}
	return info.IsDir()
}

// layout lists the volume's root as it is on disk: links with their targets, generations by one name for all.
func layout(t testing.TB, dir string) []string {
	t.Helper()
	generation := regexp.MustCompile(`\.\.\d{4}(_\d\d){5}\.\d+`)
	list, err := os.ReadDir(dir)
	expect.NoError(t, err)
	var lines []string
	for _, d := range list {
		line := d.Name()
		if target, err := os.Readlink(filepath.Join(dir, d.Name())); err == nil {
			line += " -> " + target
		}
		lines = append(lines, generation.ReplaceAllString(line, "GENERATION"))
	}
	slices.Sort(lines)
	return lines
}

// wantLayout is the layout of a volume that w has written want into.
func wantLayout(w atomicdir.Writer, want tree.Tree) []string {
	lines := want.Names()
	if _, ok := w.(atomicdir.Atomic); ok {
		for i, name := range lines {
			lines[i] = name + " -> ..data/" + name
		}
		lines = append(lines, "GENERATION", "..data -> GENERATION")
	}
	slices.Sort(lines)
	return lines
}

// checkVolume compares everything about the volume at dir with what w shall have made of want.
func checkVolume(t testing.TB, w atomicdir.Writer, dir string, want tree.Tree) {
	t.Helper()
	if diff := cmp.Diff(wantView(want), see(t, dir)); diff != "" {
		t.Errorf("%T: files (-want +got):\n%s", w, diff)
	}
	got := layout(t, dir)
	if _, ok := w.(atomicdir.InPlace); ok { // Inodes of files that are gone wait there.
		got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "..kept-") })
	}
	if diff := cmp.Diff(wantLayout(w, want), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%T: root (-want +got):\n%s", w, diff)
	}
}

// stamps returns for every path in dir, reserved ones included, what changes with the slightest touch.
func stamps(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		all[p] = fmt.Sprintf("inode %d, mode %o, %d:%d, size %d, changed %v %v", st.Ino, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim, st.Ctim)
		return nil
	})
	expect.NoError(t, err)
	return all
}

func checkUntouched(t testing.TB, dir string, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, stamps(t, dir)); diff != "" {
		t.Errorf("something was touched (-before +after):\n%s", diff)
	}
}

// checkUnchanged writes files that are there already, which must touch nothing.
func checkUnchanged(t testing.TB, w atomicdir.Writer, dir string, root *os.File, want tree.Tree) {
	t.Helper()
	before := stamps(t, dir)
	if mustWrite(t, w, root, want) {
		t.Errorf("%T.Write of the same files = changed, want unchanged", w)
	}
	checkUntouched(t, dir, before)
}

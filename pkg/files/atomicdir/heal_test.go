package atomicdir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// damage does something to a volume's root directory that no complete Write leaves behind. The shell-like helpers fail
// the test if they cannot do their part.
type damage func(d dirOf)

type dirOf struct {
	t   *testing.T
	dir string
}

func (d dirOf) path(name string) string { return filepath.Join(d.dir, name) }

func (d dirOf) do(err error) {
	d.t.Helper()
	expect.NoError(d.t, err)
}

func (d dirOf) link(to, name string) {
	d.do(os.RemoveAll(d.path(name)))
	d.do(os.Symlink(to, d.path(name)))
}

func (d dirOf) write(name, data string) {
	d.do(os.RemoveAll(d.path(name)))
	d.do(os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	d.do(os.WriteFile(d.path(name), []byte(data), 0o644))
}

func (d dirOf) remove(name string)          { d.do(os.RemoveAll(d.path(name))) }
func (d dirOf) chmod(name string, m uint32) { d.do(os.Chmod(d.path(name), os.FileMode(m))) }
func (d dirOf) live() string                { return target(d.t, d.dir) }
func (d dirOf) rename(from, to string)      { d.do(os.Rename(d.path(from), d.path(to))) }
func (d dirOf) mkfifo(name string)          { d.do(unix.Mkfifo(d.path(name), 0o600)) }
func (d dirOf) socket(name string)          { d.do(unix.Mknod(d.path(name), unix.S_IFSOCK|0o644, 0)) }
func (d dirOf) mkdir(name string)           { d.do(os.Mkdir(d.path(name), 0o755)) }

// damagesToAll can befall the volume of any writer.
func damagesToAll() map[string]damage {
	return map[string]damage{
		"nothing":                            func(dirOf) {},
		"the root's mode is wrong":           func(d dirOf) { d.do(os.Chmod(d.dir, 0o700)) },
		"the root is sticky":                 func(d dirOf) { d.do(os.Chmod(d.dir, 0o755|os.ModeSticky)) },
		"a temporary file is left":           func(d dirOf) { d.write("..tmp-0", "x"); d.write("..tmp-1", "x") },
		"a temporary link is left":           func(d dirOf) { d.link("..data/a", "..tmp-0") },
		"a temporary directory is left":      func(d dirOf) { d.write("..tmp-0/x/y", "x") },
		"an orphan generation is left":       func(d dirOf) { d.write("..2020_01_02_03_04_05.123456/a", "stale") },
		"half an orphan generation is left":  func(d dirOf) { d.mkdir("..2020_01_02_03_04_05.123456") },
		"a strange reserved name":            func(d dirOf) { d.write("...", "x"); d.write("..x/y", "x") },
		"a strange file":                     func(d dirOf) { d.write("strange", "x") },
		"a strange directory":                func(d dirOf) { d.write("strange/x/y", "x") },
		"a strange fifo":                     func(d dirOf) { d.mkfifo("strange") },
		"a strange link":                     func(d dirOf) { d.link("/etc", "strange") },
		"a strange link that leads nowhere":  func(d dirOf) { d.link("nowhere", "strange") },
		"a link to a name that was dropped":  func(d dirOf) { d.link("..data/dropped", "dropped") },
		"a name is gone":                     func(d dirOf) { d.remove("a") },
		"all names are gone":                 func(d dirOf) { d.remove("a"); d.remove("k") },
		"a name is a directory":              func(d dirOf) { d.write("a", ""); d.remove("a"); d.write("a/x", "x") },
		"a name is a plain file":             func(d dirOf) { d.write("a", "mine") },
		"a name is a fifo":                   func(d dirOf) { d.remove("a"); d.mkfifo("a") },
		"a name is a socket":                 func(d dirOf) { d.remove("a"); d.socket("a") },
		"a name is a link out of the volume": func(d dirOf) { d.link("/etc/passwd", "a") },
		"a name is a link to another name":   func(d dirOf) { d.link("k/b", "a") },
		"a directory's name is a file":       func(d dirOf) { d.write("k", "x") },
	}
}

// damagesToAtomic can befall the volume of an Atomic.
func damagesToAtomic() map[string]damage {
	return map[string]damage{
		"..data_tmp is left as a link": func(d dirOf) { d.link("..2020_01_02_03_04_05.1", "..data_tmp") },
		"..data_tmp is left with its target": func(d dirOf) {
			d.write("..2020_01_02_03_04_05.1/a", "x")
			d.link("..2020_01_02_03_04_05.1", "..data_tmp")
		},
		"..data_tmp is a file":               func(d dirOf) { d.write("..data_tmp", "x") },
		"..data_tmp is a directory":          func(d dirOf) { d.write("..data_tmp/x", "x") },
		"..data is gone":                     func(d dirOf) { d.remove("..data") },
		"..data leads nowhere":               func(d dirOf) { d.remove(d.live()) },
		"..data leads to an empty directory": func(d dirOf) { g := d.live(); d.remove(g); d.mkdir(g) },
		"..data is a file":                   func(d dirOf) { d.write("..data", "x") },
		"..data is a directory":              func(d dirOf) { d.remove("..data"); d.write("..data/a", "x") },
		"..data is the generation itself":    func(d dirOf) { g := d.live(); d.remove("..data"); d.rename(g, "..data") },
		"..data leads to itself":             func(d dirOf) { d.link("..data", "..data") },
		"..data leads to the root":           func(d dirOf) { d.link(".", "..data") },
		"..data leads out of the volume":     func(d dirOf) { d.link("..", "..data") },
		"..data is absolute":                 func(d dirOf) { d.link(d.path(d.live()), "..data") },
		"..data leads by a detour":           func(d dirOf) { d.link("./"+d.live(), "..data") },
		"..data leads to ..data_tmp":         func(d dirOf) { d.rename(d.live(), "..data_tmp"); d.link("..data_tmp", "..data") },
		"..data leads to a user's name":      func(d dirOf) { d.remove("a"); d.mkdir("a"); d.link("a", "..data") },
		"..data leads to a file":             func(d dirOf) { d.write("..2020_01_02_03_04_05.1", "x"); d.link("..2020_01_02_03_04_05.1", "..data") },
		"..data leads to a link": func(d dirOf) {
			d.link(d.live(), "..2020_01_02_03_04_05.1")
			d.link("..2020_01_02_03_04_05.1", "..data")
		},
		"a name leads past ..data":          func(d dirOf) { d.link(d.live()+"/a", "a") },
		"the live files have a stranger":    func(d dirOf) { d.write("..data/strange", "x") },
		"the live files have a strange dir": func(d dirOf) { d.mkdir("..data/strange") },
		"the live files lack one":           func(d dirOf) { d.remove("..data/k/b") },
		"a live file has other bytes":       func(d dirOf) { d.do(os.WriteFile(d.path("..data/a"), []byte("X"), 0)) },
		"a live file is longer":             func(d dirOf) { d.do(os.Truncate(d.path("..data/a"), 100)) },
		"a live file has another mode":      func(d dirOf) { d.chmod("..data/a", 0o600) },
		"a live directory has another mode": func(d dirOf) { d.chmod("..data/k", 0o700) },
		"the generation has another mode":   func(d dirOf) { d.chmod(d.live(), 0o700) },
		"a live file is a link":             func(d dirOf) { d.link("k/b", "..data/a") },
		"a live file is a fifo":             func(d dirOf) { d.remove("..data/a"); d.mkfifo("..data/a") },
		"a live file is a socket":           func(d dirOf) { d.remove("..data/a"); d.socket("..data/a") },
		"a live directory is a fifo":        func(d dirOf) { d.remove("..data/k"); d.mkfifo("..data/k") },
		"a live directory is a link":        func(d dirOf) { d.rename("..data/k", "..data/k2"); d.link("k2", "..data/k") },
		"killed while writing a generation": func(d dirOf) { d.write("..2030_01_02_03_04_05.1/k/b", "new") },
		"killed before the switch": func(d dirOf) {
			d.write("..2030_01_02_03_04_05.1/a", "new")
			d.link("..2030_01_02_03_04_05.1", "..data_tmp")
			d.remove("a")
		},
		"killed before names were added":        func(d dirOf) { d.remove("a"); d.link("..data/a", "..tmp-0"); d.mkdir("..2020_01_02_03_04_05.1") },
		"killed by a kubelet between 10 and 11": func(d dirOf) { d.link("..data/old", "old"); d.write("..2020_01_02_03_04_05.1/old", "x") },
	}
}

// damagesToPlain can befall the volume of a Replace or an InPlace.
func damagesToPlain() map[string]damage {
	return map[string]damage{
		"a nested file is gone":           func(d dirOf) { d.remove("k/b") },
		"a nested file is a directory":    func(d dirOf) { d.remove("k/b"); d.write("k/b/c", "x") },
		"a nested file is a fifo":         func(d dirOf) { d.remove("k/b"); d.mkfifo("k/b") },
		"a nested file is a socket":       func(d dirOf) { d.remove("k/b"); d.socket("k/b") },
		"a directory is a fifo":           func(d dirOf) { d.remove("k"); d.mkfifo("k") },
		"a nested file is a link":         func(d dirOf) { d.link("../a", "k/b") },
		"a strange nested file":           func(d dirOf) { d.write("k/strange", "x") },
		"a directory is a link":           func(d dirOf) { d.rename("k", "k2"); d.link("k2", "k") },
		"a directory's mode is wrong":     func(d dirOf) { d.chmod("k", 0o700) },
		"a file's mode is wrong":          func(d dirOf) { d.chmod("a", 0o600) },
		"killed between bytes and length": func(d dirOf) { d.write("a", "one and a tail") },
		"killed while a directory came":   func(d dirOf) { d.write("..tmp-0/b", "x"); d.remove("k") },
		"the layout of an Atomic in parts": func(d dirOf) {
			d.mkdir("..2020_01_02_03_04_05.1")
			d.link("..2020_01_02_03_04_05.1", "..data")
			d.link("..data/a", "a")
		},
	}
}

// TestHeal damages a volume and checks that one Write, of the files it had or of others, leaves nothing of it. These
// are rules 28, 34, 36, 37 and 39 to 44 (trap 7). These are faults 1 and 4.
func TestHeal(t *testing.T) {
	t.Parallel()
	old, other := files{"a": "one", "k/b": "two"}, files{"a": "one", "k/b": "three", "m": "four"}
	for kind, w := range writers() {
		damages := []map[string]damage{damagesToAll(), damagesToPlain()}
		if kind == "Atomic" {
			damages[1] = damagesToAtomic()
		}
		for _, set := range damages {
			for name, damage := range set {
				for what, next := range map[string]files{"same": old, "other": other, "no": nil} {
					t.Run(kind+"/"+name+"/then "+what+" files", func(t *testing.T) {
						t.Parallel()
						dir, root := newVolume(t)
						mustWrite(t, w, root, old.tree(t))
						damage(dirOf{t, dir})
						checkHeals(t, w, dir, root, next.tree(t))
					})
				}
			}
		}
	}
}

func checkHeals(t *testing.T, w atomicdir.Writer, dir string, root *os.File, next tree.Tree) {
	t.Helper()
	mustWrite(t, w, root, next)
	checkVolume(t, w, dir, next)
	checkUnchanged(t, w, dir, root, next)
}

// TestHealFirstWrite damages a volume that nothing was written into yet.
func TestHealFirstWrite(t *testing.T) {
	t.Parallel()
	want := files{"a": "one", "k/b": "two"}.tree(t)
	for kind, w := range writers() {
		for name, damage := range damagesToAll() {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, root := newVolume(t)
				damage(dirOf{t, dir})
				checkHeals(t, w, dir, root, want)
			})
		}
	}
}

// TestUnremovable has something in the volume that nobody can remove while it is there: the update comes through
// nevertheless, the error names what stays, and it goes with the first Write after the obstacle. This is rule 37.
func TestUnremovable(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		for _, name := range []string{"strange", "..tmp-x", "..2020_01_02_03_04_05.1"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, root := newVolume(t)
				mustWrite(t, w, root, files{"a": "1", "z": "1"}.tree(t))
				obstacle := filepath.Join(dir, name)
				dirOf{t, dir}.mkdir(name)
				expect.NoError(t, unix.Mount("tmpfs", obstacle, "tmpfs", 0, ""))
				t.Cleanup(func() { _ = unix.Unmount(obstacle, unix.MNT_DETACH) })
				want := files{"a": "2"}.tree(t)
				_, err := w.Write(root, want)
				if err == nil || !strings.Contains(err.Error(), "clean up: remove "+name) {
					t.Errorf("Write = %v, want an error about %s", err, name)
				}
				if data, err := os.ReadFile(filepath.Join(dir, "a")); string(data) != "2" {
					t.Errorf("a is %q, %v, want the new bytes", data, err)
				}
				expect.NoError(t, unix.Unmount(obstacle, 0))
				checkHeals(t, w, dir, root, want)
			})
		}
	}
}

package atomicdir_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// change is one update of a volume.
type change struct{ from, to files }

func updates() map[string]change {
	big := strings.Repeat("0123456789abcdef", 1<<12)
	return map[string]change{
		"files come into an empty volume": {nil, files{"a": "1", "b/c": "2"}},
		"all files go":                    {files{"a": "1", "b/c": "2"}, nil},
		"bytes change":                    {files{"a": "old", "b": "same"}, files{"a": "new", "b": "same"}},
		"bytes change in a directory":     {files{"d/e/a": "old", "d/b": "same"}, files{"d/e/a": "new", "d/b": "same"}},
		"a file grows":                    {files{"a": "x"}, files{"a": big}},
		"a file shrinks":                  {files{"a": big}, files{"a": "x"}},
		"a file becomes empty":            {files{"a": "x"}, files{"a": ""}},
		"an empty file gets bytes":        {files{"a": ""}, files{"a": "x"}},
		"a mode changes":                  {files{"a": "0644:x", "b": "0644:y"}, files{"a": "0400:x", "b": "0644:y"}},
		"mode and bytes change":           {files{"a": "0600:x"}, files{"a": "0444:y"}},
		"modes that open nothing":         {files{"a": "0000:x"}, files{"a": "0000:y", "b": "0777:z", "c": "0111:z"}},
		"a name comes":                    {files{"a": "1"}, files{"a": "1", "b": "2"}},
		"a name goes":                     {files{"a": "1", "b": "2"}, files{"a": "1"}},
		"a name is exchanged for another": {files{"a": "1", "c": "3"}, files{"b": "2", "c": "3"}},
		"a file becomes a directory":      {files{"a": "1", "z": "1"}, files{"a/b/c": "2", "a/d": "3", "z": "2"}},
		"a directory becomes a file":      {files{"a/b/c": "2", "a/d": "3", "z": "1"}, files{"a": "1", "z": "2"}},
		"a nested file becomes a directory": {
			files{"k/a": "1", "k/z": "1"}, files{"k/a/b": "2", "k/z": "1"},
		},
		"a nested directory becomes a file": {
			files{"k/a/b": "2", "k/a/c": "2", "k/z": "1"}, files{"k/a": "1", "k/z": "1"},
		},
		"a nested directory goes": {files{"k/a/b": "2", "k/z": "1"}, files{"k/z": "1"}},
		"names change their case": {files{"NAME": "1", "Name": "2", "name": "3"}, files{"name": "4"}},
		"names that only look odd": {
			files{"-rf": "1", ".hidden": "1", "a..b": "1", "end..": "1", "k/..b": "1", "k/...": "1"},
			files{"-rf": "2", ".hidden": "2", "a..b": "2", "end..": "1", "k/..b": "2", "k/..data": "1"},
		},
		"names with blanks, quotes and umlauts": {files{"ä b": "1", `"q"`: "1"}, files{"ä b": "2", `\`: "1", "new\nline": "3"}},
	}
}

// TestWrite takes volumes there and back by every kind of update: what is in the root afterwards (rules 26, 29, 36 and
// 38), that a file may become a directory (trap 12), and that equal files are not touched (rule 30).
// These are faults 7 and 8.
func TestWrite(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		for name, u := range updates() {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				from, to := u.from.tree(t), u.to.tree(t)
				dir, root := newVolume(t)
				for _, want := range []tree.Tree{from, to, from} {
					mustWrite(t, w, root, want)
					checkVolume(t, w, dir, want)
				}
				if !mustWrite(t, w, root, to) {
					t.Error("Write of other files = unchanged, want changed")
				}
				checkUnchanged(t, w, dir, root, to)
			})
		}
	}
}

// TestUmask runs tests once more in a process whose umask takes everything from group and others, or from everybody, and on a
// file system that is not a tmpfs, unless the machine has no other for temporary files. This is rule 32.
func TestUmask(t *testing.T) {
	t.Parallel()
	for _, umask := range []string{"077", "777"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^(TestWrite|TestGroup)$", "-test.count=1")
		cmd.Env = append(os.Environ(), umaskVariable+"="+umask, "TMPDIR="+os.Getenv(diskVariable))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("tests under umask %s: %v\n%s", umask, err, out)
		}
	}
}

// TestTurnBetweenWriters has each writer take over a volume from each other one.
func TestTurnBetweenWriters(t *testing.T) {
	t.Parallel()
	want := files{"a": "1", "b/c": "2", "b/d": "3"}.tree(t)
	for first, w1 := range writers() {
		for second, w2 := range writers() {
			t.Run(first+" to "+second, func(t *testing.T) {
				t.Parallel()
				dir, root := newVolume(t)
				mustWrite(t, w1, root, files{"a": "0", "b/c": "2", "x/y": "4"}.tree(t))
				mustWrite(t, w2, root, want)
				checkVolume(t, w2, dir, want)
			})
		}
	}
}

// TestRefuse is rule 27: one bad path or mode (rules 5, 20, 21, 22, 23 and 25), and nothing is written. This is fault 7.
func TestRefuse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file    tree.File
		dirMode fs.FileMode
		want    string
	}{
		"empty path":                      {file: tree.File{Path: ""}, want: "not a clean relative path"},
		"the root itself":                 {file: tree.File{Path: "."}, want: "not a clean relative path"},
		"absolute path":                   {file: tree.File{Path: "/etc/passwd"}, want: "not a clean relative path"},
		"path out of the volume":          {file: tree.File{Path: "../x"}, want: "not a clean relative path"},
		"path out of the volume and back": {file: tree.File{Path: "a/../../x"}, want: "not a clean relative path"},
		"path that is not clean":          {file: tree.File{Path: "./..data_tmp"}, want: "not a clean relative path"},
		"path with two slashes":           {file: tree.File{Path: "a//b"}, want: "not a clean relative path"},
		"path with a final slash":         {file: tree.File{Path: "a/"}, want: "not a clean relative path"},
		"the link itself":                 {file: tree.File{Path: "..data"}, want: "reserved"},
		"below the link":                  {file: tree.File{Path: "..data/x"}, want: "reserved"},
		"three dots":                      {file: tree.File{Path: "..."}, want: "reserved"},
		"setuid file":                     {file: tree.File{Path: "a", Mode: 0o755 | fs.ModeSetuid}, want: "more than permission bits"},
		"a file that is a directory":      {file: tree.File{Path: "a", Mode: 0o755 | fs.ModeDir}, want: "more than permission bits"},
		"sticky directories":              {file: tree.File{Path: "a"}, dirMode: 0o777 | fs.ModeSticky, want: "directory mode"},
	}
	for kind, w := range writers() {
		for name, test := range tests {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, root := newVolume(t)
				mustWrite(t, w, root, files{"a": "1"}.tree(t))
				before := stamps(t, dir)
				bad := tree.Tree{Files: []tree.File{{Path: "0"}, test.file}, DirMode: 0o755 | test.dirMode}
				changed, err := w.Write(root, bad)
				if changed || err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("Write(%q) = %t, %v, want false and an error with %q", test.file.Path, changed, err, test.want)
				}
				checkUntouched(t, dir, before)
			})
		}
	}
}

// TestGenerationName checks that ..data leads to a directory named by the time in UTC, directly and relative. This is
// rule 31.
func TestGenerationName(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	before := time.Now().UTC().Truncate(time.Second)
	mustWrite(t, atomicdir.Atomic{}, root, files{"a": "1"}.tree(t))
	target := target(t, dir)
	if ok := regexp.MustCompile(`^\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+$`).MatchString(target); !ok {
		t.Errorf("..data -> %q, want a name like ..2026_01_02_15_04_05.123456789", target)
	}
	made, err := time.Parse("..2006_01_02_15_04_05", target[:21])
	if err != nil || made.Before(before) || made.After(time.Now()) {
		t.Errorf("..data -> %q, want the time now in UTC (%v); %v", target, before, err)
	}
}

// TestSameGeneration checks that a generation stays as long as the files do, even if a name has to be put right. These
// are rules 30 and 41 (trap 6).
func TestSameGeneration(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	want := files{"a": "1", "b": "2"}.tree(t)
	mustWrite(t, atomicdir.Atomic{}, root, want)
	before := target(t, dir)
	expect.NoError(t, os.Remove(filepath.Join(dir, "b")))
	if !mustWrite(t, atomicdir.Atomic{}, root, want) {
		t.Error("Write = unchanged, want changed: a name was missing")
	}
	checkVolume(t, atomicdir.Atomic{}, dir, want)
	if after := target(t, dir); after != before {
		t.Errorf("..data -> %q, want still %q", after, before)
	}
}

// TestFilesThatAreKnownToDiffer: a writer does not compare files that the caller marks as different. If the caller is wrong, the writer writes what is there already.
func TestFilesThatAreKnownToDiffer(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	told := atomicdir.Atomic{Differs: true}
	for _, f := range []files{{"a": "1", "d/b": "1"}, {"a": "2", "d/b": "1"}, {"a": "2", "d/b": "1"}} {
		if !mustWrite(t, told, root, f.tree(t)) {
			t.Errorf("Write of %v = unchanged, want changed", f)
		}
		checkVolume(t, told, dir, f.tree(t))
	}
	checkUnchanged(t, atomicdir.Atomic{}, dir, root, files{"a": "2", "d/b": "1"}.tree(t))
}

// TestLinksInTheWay has links where a writer expects its directories: none leads it out of the volume.
func TestLinksInTheWay(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			outside := t.TempDir()
			expect.NoError(t, os.WriteFile(filepath.Join(outside, "f"), []byte("precious"), 0o600))
			for _, name := range []string{"d", "..data", "..tmp-0", "..2030_01_01_00_00_00.1"} {
				expect.NoError(t, os.Symlink(outside, filepath.Join(dir, name)))
			}
			want := files{"d/f": "1", "d/g/h": "2"}.tree(t)
			mustWrite(t, w, root, want)
			checkVolume(t, w, dir, want)
			if data, err := os.ReadFile(filepath.Join(outside, "f")); string(data) != "precious" {
				t.Errorf("a file outside is %q, %v", data, err)
			}
			if list, err := os.ReadDir(outside); len(list) != 1 {
				t.Errorf("outside is %v, %v, want one file", list, err)
			}
		})
	}
}

// TestTwoWritesAtTheSameInstant: a generation is named by the time, and the clock of a bubble stands still. No write of
// the same nanosecond may touch the generation that is live, or any that is in its grace. This is fault 3.
func TestTwoWritesAtTheSameInstant(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]atomicdir.Grace{"without grace": {}, "with grace": hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir, root := newVolume(t)
				w := atomicdir.Atomic{Grace: grace}
				for _, content := range []string{"1", "2", "3"} {
					want := files{"a": content, "k/b": content}.tree(t)
					if _, err := w.Write(root, want); err != nil {
						t.Errorf("write of %s: %v", content, err)
					}
					if got, err := os.ReadFile(filepath.Join(dir, "a")); string(got) != content {
						t.Fatalf("a holds %q, %v, want %s", got, err, content)
					}
				}
			})
		})
	}
}

// TestAFailedWriteRemovesOnlyItsOwnGeneration: the name of the new generation is taken at the last moment, by the live files
// themselves. The write fails, and the live files stay. This is fault 3.
func TestAFailedWriteRemovesOnlyItsOwnGeneration(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	mustWrite(t, atomicdir.Atomic{}, root, files{"a": "1"}.tree(t))
	d := dirOf{t, dir}
	takesName := func(op, name string) error {
		if op == "mkdir" && strings.HasPrefix(name, "..2") {
			d.rename(d.live(), name)
			d.link(name, "..data")
		}
		return nil
	}
	if _, err := atomicdir.WithHook(atomicdir.Atomic{}, takesName).Write(root, files{"a": "2"}.tree(t)); err == nil {
		t.Error("Write = nil, want an error: the name of its generation was taken")
	}
	checkVolume(t, atomicdir.Atomic{}, dir, files{"a": "1"}.tree(t))
	checkHeals(t, atomicdir.Atomic{}, dir, root, files{"a": "2"}.tree(t))
}

package fileset

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// linked returns a directory with files, directories and links, beside a file outside that no reader may get.
func linked(t *testing.T) (dir string) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "dir")
	for _, path := range []string{"dir/sub/deep", "dir/..1", "outside"} {
		expect.NoError(t, os.MkdirAll(filepath.Join(top, path), 0o700))
	}
	for path, text := range map[string]string{
		"dir/file": "inside", "dir/sub/deep/file": "inside", "dir/..1/file": "inside", "outside/file": "outside",
	} {
		expect.NoError(t, os.WriteFile(filepath.Join(top, path), []byte(text), 0o600))
	}
	for name, target := range map[string]string{
		"etc": "/etc/passwd", "up": "../outside/file", "absolute": filepath.Join(dir, "file"), "through": "sub/../../outside/file",
		"here": "sub/deep/file", "around": "sub/deep/../../file", "..data": "..1", "data": "..data/file", "second": "here",
		"hop": "up", "out": "../outside", "below": "out/file", "nowhere": "gone", "loop": "loop", "proc": "/proc/self/root",
	} {
		expect.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	return dir
}

// TestLinksStayBeneath with openat2, and where it is not known.
func TestLinksStayBeneath(t *testing.T) {
	t.Parallel()
	top, err := openDir(linked(t))
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, top.Close()) })
	type open = func(*os.File, string, int) (*os.File, error)
	type look = func(*os.File, string) (state, error)
	for how, by := range map[string]struct {
		open open
		look look
	}{"openat2": {openBeneath, stateBeneath}, "without openat2": {openInRoot, stateInRoot}} {
		for name, want := range map[string]string{
			"file": "inside", "here": "inside", "around": "inside", "data": "inside", "second": "inside", "sub/deep/file": "inside",
			"etc": "leads out", "up": "leads out", "absolute": "leads out", "through": "leads out", "hop": "leads out",
			"below": "leads out", "out/file": "leads out", "proc": "leads out", "../outside/file": "leads out",
			"nowhere": "no such file", "loop": "too many levels of symbolic links",
		} {
			t.Run(how+"/"+name, func(t *testing.T) {
				t.Parallel()
				got, err := text(by.open(top, name, unix.O_RDONLY))
				if err != nil {
					got = err.Error()
				}
				if !strings.Contains(got, want) {
					t.Errorf("open = %q, want %q", got, want)
				}
				found, err := by.look(top, name)
				if leads := want == "leads out"; (err != nil) != leads || (found != state{}) != (want == "inside") {
					t.Errorf("look = %+v, %v, want a state only of a file inside, and an error only of a link that leads out", found, err)
				}
			})
		}
	}
}

func text(file *os.File, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	return string(data), err
}

// TestBothLookAlike: a set that was read without openat2 is current for a look with stat.
func TestBothLookAlike(t *testing.T) {
	t.Parallel()
	dir := linked(t)
	top, err := openDir(dir)
	expect.NoError(t, err)
	defer top.Close()
	for _, name := range []string{"file", "here", "data"} {
		want := look(filepath.Join(dir, name))
		for how, look := range map[string]func(*os.File, string) (state, error){"openat2": stateBeneath, "without": stateInRoot} {
			if got, err := look(top, name); got != want || err != nil {
				t.Errorf("%s, %s: %+v, %v, want %+v", name, how, got, err, want)
			}
		}
	}
}

// TestErrorsNameTheLink, and the files that are inside are read all the same.
func TestErrorsNameTheLink(t *testing.T) {
	t.Parallel()
	dir := linked(t)
	expect.NoError(t, os.Remove(filepath.Join(dir, "..data")))
	set, err := ReadDir(t.Context(), dir, func(name string) bool { return name != "loop" })
	expect.NoError(t, err)
	var names []string
	for _, f := range set.Contents[0].Files {
		names = append(names, f.Name+"="+string(f.Data))
	}
	if got, want := strings.Join(names, " "), "around=inside file=inside here=inside second=inside"; got != want {
		t.Errorf("files: %s, want %s", got, want)
	}
	lost, rest := environ.FileErrors(set.Contents[0].Err)
	got := map[string]string{}
	for _, l := range lost {
		got[l.Name] = l.Err.Error()
	}
	const follows = ": only relative links to files of the directory are followed"
	for name, target := range map[string]string{"etc": "/etc/passwd", "up": "../outside/file", "hop": "up", "proc": "/proc/self/root", "out": "../outside"} {
		if want := fmt.Sprintf("it is a link to %q, which leads out of the directory%s", target, follows); got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if rest != nil {
		t.Errorf("an error of the whole directory: %v", rest)
	}
	for _, one := range set.seen {
		if name := filepath.Base(one.path); got[name] != "" {
			t.Errorf("%s is watched, although it leads out", name)
		}
	}
}

// TestADataLinkThatLeadsOut is an error of the whole directory, and the next good link ends it.
func TestADataLinkThatLeadsOut(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"/etc", "../outside"} {
		dir := linked(t)
		data := filepath.Join(dir, "..data")
		expect.NoError(t, os.Remove(data))
		expect.NoError(t, os.Symlink(target, data))
		set, err := ReadDir(t.Context(), dir, everyName)
		expect.NoError(t, err)
		want := fmt.Sprintf("%q: it is a link to %q, which leads out of the directory", "..data", target)
		if got := set.Contents[0]; len(got.Files) > 0 || got.Err == nil || !strings.HasPrefix(got.Err.Error(), want) {
			t.Errorf("content = %d files, %v, want the error %s", len(got.Files), got.Err, want)
		}
		expect.NoError(t, os.Symlink("..1", data+".new"))
		expect.NoError(t, os.Rename(data+".new", data))
		// Where stamps are of ticks, a change in the same tick does not show, and the watcher reads again.
		if set.IsCurrent() && !set.isYoung() {
			t.Error("the set is current, and not young, after the link was changed")
		}
		if set, err = ReadDir(t.Context(), dir, everyName); err != nil || len(set.Contents[0].Files) != 1 || set.Contents[0].Err != nil {
			t.Errorf("with a good link: %+v, %v, want one file", set.Contents, err)
		}
	}
}

// TestSwapsDuringReads: a directory on the way of a link becomes a link that leads out, and the file a link to a file outside,
// all the time. Nothing that is outside is ever read.
func TestSwapsDuringReads(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*os.File, string, int) (*os.File, error){"openat2": openBeneath, "without openat2": openInRoot} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := linked(t)
			expect.NoError(t, os.Symlink("deep/file", filepath.Join(dir, "sub", "link")))
			expect.NoError(t, os.Symlink("../outside", filepath.Join(dir, "evil")))
			expect.NoError(t, os.WriteFile(filepath.Join(dir, "..", "outside", "link"), []byte("outside"), 0o600))
			top, err := openDir(dir)
			expect.NoError(t, err)
			defer top.Close()
			ctx, stop := context.WithCancel(t.Context())
			swapping := make(chan error, 1)
			go func() {
				for ctx.Err() == nil {
					if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "sub"), unix.AT_FDCWD, filepath.Join(dir, "evil"), unix.RENAME_EXCHANGE); err != nil {
						swapping <- err
						return
					}
				}
				swapping <- nil
			}()
			count := map[string]int{}
			for range 100_000 {
				got, err := text(open(top, "sub/link", unix.O_RDONLY))
				if err != nil {
					got = "refused"
				}
				count[got]++
				if count["inside"] >= 200 && count["refused"] >= 200 {
					break
				}
			}
			stop()
			expect.NoError(t, <-swapping)
			if count["outside"] > 0 || count["inside"] == 0 || count["refused"] == 0 {
				t.Errorf("reads: %v, want some from inside, some refused, and none from outside", count)
			}
		})
	}
}

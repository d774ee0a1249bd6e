package fileset_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir/volumes"
)

func TestReadEachLayout(t *testing.T) {
	t.Parallel()
	for name, writer := range volumes.Layouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVolume(t, writer)
			for round := range 3 {
				n := fmt.Sprint(round)
				v.write(t, files{"b": n, "A": n, ".hidden": n, "sub/c": n, "sub/deep/d": n, "app.env": "E=" + n, "n" + n: ""})
				got, err := read(t.Context(), v.dir(), v.key("b"), v.key("sub/deep/d"), v.envFile("app.env"), v.key("gone"), v.dir())
				expect.NoError(t, err)
				all := []string{".hidden=" + n, "A=" + n, "app.env=E=" + n, "b=" + n, "n" + n + "="}
				want := [][]string{all, {"b=" + n}, {"d=" + n}, {"app.env=E=" + n}, {"missing"}, all}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("contents (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestReadDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.NoError(t, os.WriteFile(at("file"), []byte("1"), 0o600))
	expect.NoError(t, os.WriteFile(at("..reserved"), []byte("1"), 0o600))
	expect.NoError(t, os.Mkdir(at("directory"), 0o700))
	expect.NoError(t, os.Symlink("file", at("link")))
	expect.NoError(t, os.Symlink("directory", at("link-to-directory")))
	expect.NoError(t, os.Symlink("nowhere", at("link-to-nothing")))
	expect.NoError(t, unix.Mkfifo(at("pipe"), 0o600))
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at("socket"))
	expect.NoError(t, err)
	defer socket.Close()
	got, err := read(t.Context(), environ.Source{Kind: environ.Dir, Path: dir})
	expect.NoError(t, err)
	if diff := cmp.Diff([][]string{{"file=1", "link=1"}}, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	expect.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	large, loop := filepath.Join(dir, "large"), filepath.Join(dir, "loop")
	expect.NoError(t, os.Symlink("loop", loop))
	expect.NoError(t, os.WriteFile(large, make([]byte, 9<<20), 0o600))
	tests := map[string]struct {
		source environ.Source
		want   string
	}{
		"a directory for a key": {environ.Source{Kind: environ.Key, Path: dir}, "it is not a file"},
		"a pipe for a file":     {environ.Source{Kind: environ.EnvFile, Path: filepath.Join(dir, "pipe")}, "it is not a file"},
		"a large key":           {environ.Source{Kind: environ.Key, Path: large}, "larger than 8 MiB"},
		"a large file":          {environ.Source{Kind: environ.Dir, Path: dir}, `"large": it is larger than 8 MiB`},
		"a link to itself":      {environ.Source{Kind: environ.Key, Path: loop}, "too many levels of symbolic links"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := read(t.Context(), tt.source); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Read = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	file, dangling := filepath.Join(t.TempDir(), "file"), t.TempDir()
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	expect.NoError(t, os.Symlink("..gone", filepath.Join(dangling, "..data")))
	for name, source := range map[string]environ.Source{
		"a directory":                 {Kind: environ.Dir, Path: "/nowhere/at/all"},
		"a file":                      {Kind: environ.EnvFile, Path: "/nowhere"},
		"a key below a file":          {Kind: environ.Key, Path: file + "/key"},
		"a directory that is a file":  {Kind: environ.Dir, Path: file},
		"a volume that leads nowhere": {Kind: environ.Dir, Path: dangling},
		"a key of such a volume":      {Kind: environ.Key, Path: dangling + "/key"},
	} {
		got, err := read(t.Context(), source)
		if diff := cmp.Diff([][]string{{"missing"}}, got); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestSetsAreNeverMixed reads while a volume is switched all the time, as the kubelet does it, which removes the old files
// at once, and as the driver does it. A key, a file of assignments and a directory must be of one moment, and complete.
func TestSetsAreNeverMixed(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, path string) func(n int) error{
		"the kubelet": kubelet, "the driver": driver,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := volume{volumes.Volume{Path: t.TempDir()}}
			write := start(t, v.Path)
			expect.NoError(t, write(0))
			ctx, stop := context.WithCancel(t.Context())
			var written atomic.Int64
			ended := make(chan error, 1)
			go func() { ended <- storm(ctx, write, &written) }()
			for reads := 0; reads < 100 || written.Load() < 70; reads++ {
				if err := checkOneSet(t.Context(), v); err != nil {
					t.Error(err)
					break
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// storm writes until the context ends, with a pause after each that lets a reader come through.
func storm(ctx context.Context, write func(n int) error, written *atomic.Int64) error {
	for n := 1; ctx.Err() == nil; n++ {
		if err := write(n); err != nil {
			return err
		}
		written.Add(1)
		pause(ctx)
	}
	return nil
}

func checkOneSet(ctx context.Context, v volume) error {
	got, err := read(ctx, v.key("z/key"), v.dir(), v.envFile("env"))
	if err != nil {
		return err
	}
	n := strings.TrimPrefix(got[0][0], "key=")
	want := [][]string{{"key=" + n}, nil, {"env=A=" + n}}
	for _, name := range []string{"a", "b", "c", "env"} {
		data := n
		if name == "env" {
			data = "A=" + n
		}
		want[1] = append(want[1], name+"="+data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("a set is not of one moment (-want +got):\n%s", diff)
	}
	return nil
}

// generation are files that all have n.
func generation(n int) files {
	text := fmt.Sprint(n)
	return files{"a": text, "b": text, "c": text, "env": "A=" + text, "z/key": text}
}

func driver(t *testing.T, path string) func(n int) error {
	t.Helper()
	v := newVolume(t, volumes.Layouts()["Atomic"])
	expect.NoError(t, os.Remove(path))
	expect.NoError(t, os.Symlink(v.Path, path))
	return func(n int) error { return v.Write(generation(n)) }
}

// kubelet switches a volume in the kubelet's order: new directory, link, old directory.
func kubelet(t *testing.T, path string) func(n int) error {
	t.Helper()
	last := ""
	return func(n int) error {
		next := fmt.Sprintf("..%d", n)
		var errs []error
		for name, data := range generation(n) {
			file := filepath.Join(path, next, name)
			errs = append(errs, os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(data), 0o600))
		}
		temp := filepath.Join(path, "..data_tmp")
		errs = append(errs, os.Symlink(next, temp), os.Rename(temp, filepath.Join(path, "..data")))
		if last != "" {
			errs = append(errs, os.RemoveAll(filepath.Join(path, last)))
		}
		last = next
		return errors.Join(errs...)
	}
}

// TestReadWaitsForNothing reads what stays as it is, without time.
func TestReadWaitsForNothing(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	v := newVolume(t, volumes.Layouts()["Atomic"])
	v.write(t, files{"a": "1"})
	if _, err := fileset.Read(ctx, []environ.Source{v.dir()}); err != nil {
		t.Errorf("Read of a volume that stays as it is = %v", err)
	}
}

func TestSetIsCurrent(t *testing.T) {
	t.Parallel()
	for name, writer := range volumes.Layouts() {
		for what, change := range map[string]files{
			"a key": {"a": "2", "b": "1"}, "a name more": {"a": "1", "b": "1", "c": ""}, "a name less": {"a": "1"},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				v := newVolume(t, writer)
				v.write(t, files{"a": "1", "b": "1"})
				grow() // A kernel before 6.13 stamps alike what is written within some milliseconds.
				set, err := fileset.Read(t.Context(), []environ.Source{v.dir()})
				if err != nil || !set.IsCurrent() {
					t.Fatalf("Read = %v, and current: %t, want true", err, set.IsCurrent())
				}
				v.write(t, change)
				if set.IsCurrent() {
					t.Error("the set is current after a change")
				}
			})
		}
	}
}

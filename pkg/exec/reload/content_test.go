package reload_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/fileset"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/reload"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir/volumes"
)

// TestContent differs with each file, also of directories below, and whatever way the volume is written; the same content is the
// same, and each change is noticed.
func TestContent(t *testing.T) {
	t.Parallel()
	for name, writer := range volumes.Layouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := volumes.New(t, writer)
			w := fileset.NewWatcher(fileset.Config{Polling: func(error) {}})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go w.Run(ctx)
			dir := reload.Directory{Path: v.Path, Watcher: w}
			seen := map[string]string{}
			for _, files := range []map[string]string{
				{"a": "1"},
				{"a": "2"},
				{"a": "2", "d/a": "2"},
				{"a": "2", "d/a": "3"},
				{"a": "2", "d/e/f": "2"},
				{"a": "2", "g/e/f": "2"},
				{"a2": ""},
				{"a": "2", "b": "2"},
			} {
				if err := v.Write(files); err != nil {
					t.Fatal(err)
				}
				c := read(t, dir)
				if before := seen[c.Digest]; before != "" || c.Files != len(files) {
					t.Errorf("%v: %d files, as %s", files, c.Files, before)
				}
				seen[c.Digest] = fmt.Sprint(files)
				if again := read(t, dir); again != c {
					t.Errorf("%v: %v, and then %v", files, c, again)
				}
			}
			for range 20 { // What is young may have changed.
				<-time.After(20 * time.Millisecond)
				read(t, dir)
				select {
				case <-w.Changes():
				default:
				}
			}
			if err := v.Write(map[string]string{"a": "2", "b": "2", "new/below": "1"}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-w.Changes():
			case <-time.After(20 * time.Second):
				t.Error("there is no notification of a file in a new directory")
			}
		})
	}
}

func read(t *testing.T, dir reload.Directory) reload.Content {
	t.Helper()
	c, err := dir.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestContentOfWhatIsNoVolume: what is not there is empty, and links that lead out are not followed.
func TestContentOfWhatIsNoVolume(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := reload.Directory{Path: filepath.Join(top, "not-yet"), Watcher: fileset.NewWatcher(fileset.Config{Polling: func(error) {}})}
	if c := read(t, dir); c.Files != 0 || c.Digest == "" {
		t.Errorf("content of what is not there: %+v", c)
	}
	out := filepath.Join(top, "out")
	for _, path := range []string{out, dir.Path} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../out", filepath.Join(dir.Path, "link")); err != nil {
		t.Fatal(err)
	}
	if c, err := dir.Read(t.Context()); c.Files != 0 || err == nil || !strings.Contains(err.Error(), "leads out of the directory") {
		t.Errorf("content with a link that leads out: %+v, %v", c, err)
	}
}

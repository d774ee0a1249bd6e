package atomicdir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
)

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

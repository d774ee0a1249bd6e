package volume

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// umaskTask publishes and updates a volume by each policy in a separate process, because the umask belongs to the
// process, and writes what a user sees after each write.
type umaskTask struct {
	// Umask is set before anything else. Dir is an empty directory for the mounts.
	Umask int
	Dir   string
	// Trees are written one after the other.
	Trees []tree.Tree
}

// steps names what was seen by policy and number of the write.
type steps map[string]seen

func stepName(policy string, write int) string { return fmt.Sprintf("%s/write %d", policy, write) }

func (u *umaskTask) run(stdout io.Writer) error {
	unix.Umask(u.Umask)
	if _, err := io.WriteString(stdout, readyLine); err != nil {
		return err
	}
	all := steps{}
	for policy, w := range policies() {
		v := &live{fs: volumefs.New(volumefs.Config{Root: u.Dir, Source: source}), target: filepath.Join(u.Dir, policy), writer: w}
		for i, t := range u.Trees {
			write := func() error { return v.write(t) }
			if i == 0 {
				write = func() error { return v.publish(roomy(), t) }
			}
			if err := write(); err != nil {
				return fmt.Errorf("%s: %w", stepName(policy, i), err)
			}
			s := seen{}
			if err := s.look(v.target, "."); err != nil {
				return fmt.Errorf("%s: %w", stepName(policy, i), err)
			}
			all[stepName(policy, i)] = s
		}
		if err := v.fs.Unmount(v.target); err != nil {
			return err
		}
	}
	return json.NewEncoder(stdout).Encode(all)
}

// TestUmask holds the writers to rule 32's better half: modes are the tree's whatever the umask.
func TestUmask(t *testing.T) {
	t.Parallel()
	plain := treeOf(t, map[string]string{"a": "1", "d/b": "2", "d/e/c": "3"})
	modes := treeOf(t, map[string]string{"a": "one", "d/b": "2", "n/e/w": "4", "x": "5"})
	for i, mode := range []fs.FileMode{0o400, 0o777, 0o640, 0o604} {
		modes.Files[i].Mode = mode
	}
	group := treeOf(t, map[string]string{"a": "two", "d/b": "3", "n/e/w": "4"})
	group.DirMode |= fs.ModeSetgid
	trees := []tree.Tree{plain, modes, group, plain}
	want := steps{}
	for policy := range policies() {
		for i, tr := range trees {
			want[stepName(policy, i)] = wanted(tr)
		}
	}
	for _, umask := range []int{0, 0o077, 0o777} {
		t.Run(fmt.Sprintf("%04o", umask), func(t *testing.T) {
			t.Parallel()
			p := start(t, task{Umask: &umaskTask{Umask: umask, Dir: t.TempDir(), Trees: trees}})
			p.awaitReady(t)
			got := steps{}
			p.result(t, &got)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Fatalf("writes (-want +got):\n%s", diff)
			}
			for name := range want {
				if diff := cmp.Diff(want[name], got[name]); diff != "" {
					t.Errorf("%s under umask %04o (-want +got):\n%s", name, umask, diff)
				}
			}
		})
	}
}

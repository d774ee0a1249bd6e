package atomicdir_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
)

// TestGuardChanges counts the changes that a write makes to the file system: the first, one of every file, one of one file
// among them, and one of nothing. More means that something is made, moved or removed that was not, in each volume at each
// change.
func TestGuardChanges(t *testing.T) {
	t.Parallel()
	tests := map[string]map[int][]int{
		"Atomic":                    {1: {9, 9, 9, 0}, 10: {54, 36, 36, 0}},
		"Replace":                   {1: {4, 4, 4, 0}, 10: {40, 40, 4, 0}},
		"InPlace":                   {1: {4, 1, 1, 0}, 10: {40, 10, 1, 0}},
		"Atomic in a new directory": {1: {7}, 10: {43}}, // Every link gets its name at once.
	}
	all := writers()
	all["Atomic in a new directory"] = atomicdir.Atomic{IsNew: true}
	for kind, w := range all {
		for count, want := range tests[kind] {
			changes := 0
			w := atomicdir.WithHook(w, func(string, string) error { changes++; return nil })
			_, root := newVolume(t)
			version := func(all, first int) files {
				f := files{}
				for i := range count {
					f[fmt.Sprintf("file-%d", i)] = fmt.Sprint("version ", all)
				}
				f["file-0"] = fmt.Sprint("version ", first)
				return f
			}
			var got []int
			for _, next := range []files{version(1, 1), version(2, 2), version(2, 3), version(2, 3)}[:len(want)] {
				changes = 0
				mustWrite(t, w, root, next.tree(t))
				got = append(got, changes)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("changes by %s of %d files, when they are made, changed, one of them is changed, and none (-want +got):\n%s", kind, count, diff)
			}
		}
	}
}

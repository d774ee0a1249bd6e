package tree_test

import (
	"fmt"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// TestGuardAllocations counts what the tree of an update makes on the heap, which is done for each volume of an object at
// each change, and once more when the volume is looked at. A digest whose cost grows with the size of the files holds them
// a second time.
func TestGuardAllocations(t *testing.T) { // Not parallel: whatever else is made would be counted.
	type counts struct{ tree, digest float64 }
	// Bytes that may be shared are remembered by where they are, in a map that grows with the number of files.
	tests := map[int]map[int]counts{1: {0: {0, 4}, 10_000: {0, 4}}, 10: {0: {0, 4}, 10_000: {0, 7}}}
	for count, sizes := range tests {
		for size, want := range sizes {
			var files []tree.File
			for i := range count {
				files = append(files, tree.File{Path: fmt.Sprintf("file-%d", i), Data: make([]byte, size), Mode: 0o644})
			}
			made, err := tree.New(files)
			if err != nil {
				t.Fatal(err)
			}
			for what, one := range map[string]struct {
				got, want float64
			}{
				"New of sorted files": {testing.AllocsPerRun(100, func() { _, _ = tree.New(files) }), want.tree},
				"Digest":              {testing.AllocsPerRun(100, func() { made.Digest() }), want.digest},
			} {
				if one.got > one.want || one.got < one.want/2 {
					t.Errorf("%s of %d files of %d bytes makes %v objects on the heap, want %v", what, count, size, one.got, one.want)
				}
			}
		}
	}
}

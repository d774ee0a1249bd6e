package treebuilder_test

import (
	"fmt"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// TestGuardAllocations counts what building a tree makes on the heap, which is done for each volume of an object at each
// change. What it makes does not depend on the size of the contents: their bytes are shared and not copied.
func TestGuardAllocations(t *testing.T) { // Not parallel: whatever else is made would be counted.
	ref := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "web"}
	for keys, most := range map[int]float64{1: 3, 10: 6} {
		for _, size := range []int{0, 100_000} {
			content := api.Content{Ref: ref, Data: map[string][]byte{}}
			for i := range keys {
				content.Data[fmt.Sprintf("key-%d", i)] = make([]byte, size)
			}
			spec := api.Spec{Sources: []api.Source{{Ref: ref}}, DefaultMode: 0o644}
			contents := map[api.Ref]api.Content{ref: content}
			got := testing.AllocsPerRun(100, func() {
				if _, err := treebuilder.Build(spec, nil, contents); err != nil {
					t.Error(err)
				}
			})
			if got > most || got < most/2 {
				t.Errorf("a tree of %d keys of %d bytes makes %v objects on the heap, want %v at most, and not far less", keys, size, got, most)
			}
		}
	}
}

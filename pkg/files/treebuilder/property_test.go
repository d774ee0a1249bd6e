package treebuilder_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// TestBuildDoesNotDependOnMapOrder builds the same volume again and again: the order in which Go walks a map must reach
// neither the tree nor the error.
func TestBuildDoesNotDependOnMapOrder(t *testing.T) {
	t.Parallel()
	const keys, repeats = 40, 60
	var pairs []string
	var items []api.Item
	for i := range keys {
		key := fmt.Sprintf("key-%02d", i)
		pairs = append(pairs, key, "value of "+key)
		items = append(items, api.Item{Key: key, Path: fmt.Sprintf("dir-%d/sub-%d/file", i%3, i%7)})
	}
	good := spec(api.Source{Ref: web, Items: items}, api.Source{Ref: extra}, api.Source{Ref: cert, Optional: true})
	conflict := spec(api.Source{Ref: extra}, api.Source{Ref: web, Items: []api.Item{
		{Key: "key-07", Path: "key-07/x"}, {Key: "key-09", Path: "key-09/y"},
	}})
	missing := spec(api.Source{Ref: cert, Items: items}, api.Source{Ref: shared, Items: items})
	contents := func() map[api.Ref]api.Content {
		return objects(map[api.Ref][]string{web: pairs, extra: pairs, shared: {}})
	}
	for name, s := range map[string]api.Spec{"a tree": good, "a conflict": conflict, "missing keys": missing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := func() string {
				tr, err := treebuilder.Build(s, nil, contents())
				return fmt.Sprint(tr.Digest(), err)
			}
			first := result()
			for range repeats {
				if got := result(); got != first {
					t.Fatalf("Build = %s, want as before %s", got, first)
				}
			}
		})
	}
}

// TestBuildNeverMixesPaths builds random volumes and compares each with a second, naive account of what must be where:
// every path of the tree was asked for, holds the bytes of the last source that asked for it, and nothing else is there.
func TestBuildNeverMixesPaths(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, contents := randomVolume(r)
		want := naive(s, contents)
		got, err := treebuilder.Build(s, nil, contents)
		if err != nil {
			t.Fatalf("seed %d: Build = %v, want no error", seed, err)
		}
		if len(got.Files) != len(want) {
			t.Fatalf("seed %d: Build made %d files, want %d", seed, len(got.Files), len(want))
		}
		if !slices.IsSortedFunc(got.Files, func(a, b tree.File) int {
			return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
		}) {
			t.Fatalf("seed %d: files are not sorted: %v", seed, got.Files)
		}
		for _, f := range got.Files {
			if data, found := want[f.Path]; !found || &data[0] != &f.Data[0] {
				t.Fatalf("seed %d: %s holds %q, want %q", seed, f.Path, f.Data, data)
			}
		}
	}
}

// randomVolume returns up to four sources over three objects. All values differ, and no path is a parent of another.
func randomVolume(r *rand.Rand) (api.Spec, map[api.Ref]api.Content) {
	refs := []api.Ref{web, extra, cert}
	contents := map[api.Ref]api.Content{}
	for _, ref := range refs {
		c := api.Content{Ref: ref, Data: map[string][]byte{}}
		for k := range r.IntN(5) {
			key := fmt.Sprintf("k%d", k)
			c.Data[key] = fmt.Appendf(nil, "%s of %s", key, ref)
		}
		if r.IntN(4) > 0 {
			contents[ref] = c
		}
	}
	s := spec()
	for range r.IntN(4) {
		src := api.Source{Ref: refs[r.IntN(len(refs))], Optional: true}
		for range r.IntN(4) {
			src.Items = append(src.Items, api.Item{
				Key: fmt.Sprintf("k%d", r.IntN(6)), Path: []string{"k0", "k1", "d/k0", "d/e/k0", "d/f"}[r.IntN(5)],
			})
		}
		s.Sources = append(s.Sources, src)
	}
	return s, contents
}

// naive returns which bytes belong at which path.
func naive(s api.Spec, contents map[api.Ref]api.Content) map[string][]byte {
	want := map[string][]byte{}
	for _, src := range s.Sources {
		data := contents[src.Ref].Data
		for key, value := range data {
			if len(src.Items) == 0 {
				want[key] = value
			}
		}
		for _, item := range src.Items {
			if value, found := data[item.Key]; found {
				want[item.Path] = value
			}
		}
	}
	return want
}

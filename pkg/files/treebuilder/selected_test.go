package treebuilder_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// selecting is a source that selects config maps.
func selecting(path string) api.Source {
	return api.Source{
		Ref: api.Ref{Kind: api.ConfigMap}, Selection: &api.Selection{Selector: "team=web", Path: path, FolderAnnotation: folderAnnotation},
	}
}

// folderAnnotation is the name that all sources of these tests have.
const folderAnnotation = "example.com/folder"

func inAFolder(folder string) map[string]string { return map[string]string{folderAnnotation: folder} }

// object returns a selected config map of the namespace shop, which has an age in days, and pairs of
// keys and values.
func object(name string, age int, pairs ...string) treebuilder.Object {
	ref := api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: name}
	return treebuilder.Object{
		Content: objects(map[api.Ref][]string{ref: pairs})[ref], Created: time.Unix(1_700_000_000, 0).AddDate(0, 0, -age),
	}
}

func TestPrepareSelected(t *testing.T) {
	t.Parallel()
	const byKey = "$(key)"
	inFolder := object("b", 1, "k", "2")
	inFolder.Annotations = inAFolder("team")
	outside, absolute := object("c", 1, "k", "3"), object("d", 1, "k", "4")
	outside.Annotations, absolute.Annotations = inAFolder("../x"), inAFolder("/etc")
	mode := fs.FileMode(0o400)
	withMode := selecting(byKey)
	withMode.Selection.Mode = &mode
	optional := selecting(byKey)
	optional.Optional = true
	tests := map[string]struct {
		sources    []api.Source
		points     []string
		selected   treebuilder.Selected
		want       []tree.File
		collisions []string
		leftOut    []string
		err        string
	}{
		"every key is a file": {
			sources:  []api.Source{selecting("$(namespace)/$(name)/$(key)")},
			selected: treebuilder.Selected{0: {{object("a", 1, "x", "1", "y", "2"), object("b", 1, "x", "3")}}},
			want:     []tree.File{file("shop/a/x", "1", 0o644), file("shop/a/y", "2", 0o644), file("shop/b/x", "3", 0o644)},
		},
		"the mode": {
			sources:  []api.Source{withMode},
			selected: treebuilder.Selected{0: {{object("a", 1, "x", "1")}}},
			want:     []tree.File{file("x", "1", 0o400)},
		},
		"the older object has the path": {
			sources:    []api.Source{selecting(byKey)},
			selected:   treebuilder.Selected{0: {{object("a", 1, "k", "1"), object("b", 2, "k", "2", "l", "3")}}},
			want:       []tree.File{file("k", "2", 0o644), file("l", "3", 0o644)},
			collisions: []string{"key k of configmap shop/a at path k, which configmap shop/b has"},
		},
		"of the same age the first name has the path": {
			sources:    []api.Source{selecting(byKey)},
			selected:   treebuilder.Selected{0: {{object("b", 1, "k", "2"), object("a", 1, "k", "1")}}},
			want:       []tree.File{file("k", "1", 0o644)},
			collisions: []string{"key k of configmap shop/b at path k, which configmap shop/a has"},
		},
		"the older one of two selections": {
			sources:    []api.Source{selecting(byKey), selecting(byKey)},
			selected:   treebuilder.Selected{0: {{object("a", 2, "k", "1")}}, 1: {{object("b", 1, "k", "2")}}},
			want:       []tree.File{file("k", "1", 0o644)},
			collisions: []string{"key k of configmap shop/b at path k, which configmap shop/a has"},
		},
		"two selections find one object": {
			sources:  []api.Source{selecting(byKey), selecting(byKey)},
			selected: treebuilder.Selected{0: {{object("a", 2, "k", "1")}}, 1: {{object("a", 2, "k", "1")}}},
			want:     []tree.File{file("k", "1", 0o644)},
		},
		"two selections find one object, and the mode is that of the first": {
			sources:  []api.Source{withMode, selecting(byKey)},
			selected: treebuilder.Selected{0: {{object("a", 2, "k", "1")}}, 1: {{object("a", 2, "k", "1", "l", "2")}}},
			want:     []tree.File{file("k", "1", 0o400), file("l", "2", 0o644)},
		},
		"two keys of one object": {
			sources:    []api.Source{selecting("$(name)")},
			selected:   treebuilder.Selected{0: {{object("a", 2, "k", "1", "l", "2")}}},
			want:       []tree.File{file("a", "1", 0o644)},
			collisions: []string{"key l of configmap shop/a at path a, which configmap shop/a has"},
		},
		"folders, and paths that no volume can have": {
			sources:  []api.Source{selecting(byKey)},
			selected: treebuilder.Selected{0: {{object("a", 1, "k", "1"), inFolder, outside, absolute, object("e", 1, "..data", "5")}}},
			want:     []tree.File{file("k", "1", 0o644), file("team/k", "2", 0o644)},
			collisions: []string{
				`key ..data of configmap shop/e at path ..data, which must not start with "..", such names are reserved`,
				`key k of configmap shop/c at path ../x/k, which must not contain the element ".."`,
				`key k of configmap shop/d at path /etc/k, which must be relative to the volume, drop the slash in front`,
			},
		},
		"a file where an older one has a directory, and the other way round": {
			sources: []api.Source{selecting("$(name)"), selecting("x/$(key)")},
			selected: treebuilder.Selected{
				0: {{object("x", 1, "k", "1"), object("y", 3, "k", "2")}}, 1: {{object("b", 2, "k", "3")}},
			},
			want:       []tree.File{file("x/k", "3", 0o644), file("y", "2", 0o644)},
			collisions: []string{"key k of configmap shop/x at path x, because of the file x/k"},
		},
		"a named object has its directories, wherever it is in the list": {
			sources: []api.Source{
				selecting(byKey),
				{Ref: web, Items: []api.Item{{Key: "a", Path: "k/a"}, {Key: "a", Path: "d"}}},
				selecting("d/$(key)"),
			},
			selected: treebuilder.Selected{0: {{object("a", 1, "k", "2")}}, 2: {{object("b", 1, "l", "2")}}},
			want:     []tree.File{file("d", "1", 0o644), file("k/a", "1", 0o644)},
			collisions: []string{
				"key k of configmap shop/a at path k, because of the file k/a",
				"key l of configmap shop/b at path d/l, because of the file d",
			},
		},
		"a later named object overwrites": {
			sources:  []api.Source{selecting(byKey), {Ref: web}},
			selected: treebuilder.Selected{0: {{object("a", 1, "a", "2", "b", "3")}}},
			want:     []tree.File{file("a", "1", 0o644), file("b", "3", 0o644)},
		},
		"an earlier named object is overwritten": {
			sources:  []api.Source{{Ref: web}, selecting(byKey)},
			selected: treebuilder.Selected{1: {{object("a", 1, "a", "2", "b", "3")}}},
			want:     []tree.File{file("a", "2", 0o644), file("b", "3", 0o644)},
		},
		"mount points have their places": {
			sources:  []api.Source{selecting(byKey)},
			points:   []string{"m"},
			selected: treebuilder.Selected{0: {{object("a", 1, "m", "2", "n", "3")}}},
			want:     []tree.File{file("n", "3", 0o644)},
			leftOut:  []string{"key m of configmap shop/a at path m"},
		},
		"nothing matches": {
			sources: []api.Source{selecting(byKey)},
			err:     "no configmap matches labelSelector team=web",
		},
		"no range of a source matches": {
			sources:  []api.Source{selecting(byKey)},
			selected: treebuilder.Selected{0: {{}, {}}},
			err:      "no configmap matches labelSelector team=web",
		},
		"nothing has to match": {sources: []api.Source{optional}},
		"an object without keys matches": {
			sources:  []api.Source{selecting(byKey)},
			selected: treebuilder.Selected{0: {{object("a", 1)}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spec(tt.sources...)
			s.MountPoints = tt.points
			plan, err := treebuilder.PrepareSelected(s, nil, objects(map[api.Ref][]string{web: {"a", "1"}}), tt.selected)
			if text := fmt.Sprint(err); text != tt.err && (err != nil || tt.err != "") {
				t.Fatalf("error = %v, want %s", err, tt.err)
			}
			if err != nil {
				return
			}
			got := plan.Tree().Files
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(tree.File{}, "Source")); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.collisions, plan.Collisions()); diff != "" {
				t.Errorf("collisions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.leftOut, plan.LeftOut()); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSelectedFilesAlwaysMakeATree, whatever the objects ask for, and in whichever order they come.
func TestSelectedFilesAlwaysMakeATree(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "a.b", "a-b", "..a"}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func() string { return names[random.IntN(len(names))] }
		var found []treebuilder.Object
		for i := range 12 {
			o := object(fmt.Sprintf("o-%d", i), random.IntN(3), pick(), "1", pick(), "2")
			o.Annotations = inAFolder([]string{"", pick(), pick() + "/" + pick()}[random.IntN(3)])
			found = append(found, o)
		}
		s := spec(selecting("$(key)"), api.Source{Ref: web, Items: []api.Item{{Key: "a", Path: pick2(random)}}}, selecting("a/$(key)"))
		build := func() treebuilder.Plan {
			random.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
			plan, err := treebuilder.PrepareSelected(s, nil, objects(map[api.Ref][]string{web: {"a", "1"}}),
				treebuilder.Selected{0: {found[:8:8]}, 2: {found[8:]}})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return plan
		}
		if files := build().Tree().Files; len(files) == 0 {
			t.Errorf("seed %d: no files", seed)
		}
	}
}

// pick2 returns the path of a named file.
func pick2(random *rand.Rand) string { return []string{"a", "b/a", "a/b/a"}[random.IntN(3)] }

// TestTheOrderOfObjectsMakesNoDifference: two drivers, or one before and after a restart, decide
// alike.
func TestTheOrderOfObjectsMakesNoDifference(t *testing.T) {
	t.Parallel()
	var found []treebuilder.Object
	for i := range 20 {
		found = append(found, object(fmt.Sprintf("o-%02d", i), i%3, "k", fmt.Sprint(i), fmt.Sprintf("l-%d", i%5), "x"))
	}
	build := func() (string, []string) {
		plan, err := treebuilder.PrepareSelected(spec(selecting("$(key)")), nil, nil, treebuilder.Selected{0: {found}})
		if err != nil {
			t.Fatal(err)
		}
		return plan.Tree().Digest(), plan.Collisions()
	}
	digest, collisions := build()
	for seed := range uint64(20) {
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
		again, others := build()
		if again != digest || !cmp.Equal(others, collisions) {
			t.Fatalf("another order makes other files, or other collisions: %s", cmp.Diff(collisions, others))
		}
	}
	if len(collisions) != 21 || collisions[20] != "and 14 more" {
		t.Errorf("collisions = %q, want the first 20 and a count", collisions)
	}
}

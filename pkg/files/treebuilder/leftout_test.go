package treebuilder_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// TestKeysAtMountPointsAreLeftOut, whatever makes their paths, and all others have their files.
func TestKeysAtMountPointsAreLeftOut(t *testing.T) {
	t.Parallel()
	s := spec(
		api.Source{Ref: web},
		api.Source{Ref: cert, Items: []api.Item{{Key: "k", Path: "m/x"}, {Key: "k", Path: "d"}, {Key: "k", Path: "d/y"}}},
		api.Source{Ref: extra, As: &api.As{Path: "m", Format: api.FormatJSON}},
	)
	s.MountPoints = []string{"d/n", "m"}
	plan, err := treebuilder.Prepare(s, nil, objects(map[api.Ref][]string{web: {"a", "1", "m", "2"}, cert: {"k", "3"}, extra: {"e", "4"}}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"all keys of configmap default/extra at path m", "key k of secret default/cert at path d",
		"key k of secret default/cert at path m/x", "key m of configmap default/web at path m",
	}
	if diff := cmp.Diff(want, plan.LeftOut()); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	wantTree := plain(file("a", "1", 0o644), file("d/y", "3", 0o644))
	wantTree.MountPoints = s.MountPoints
	if diff := cmp.Diff(wantTree, plan.Tree()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

// TestMountPointsIfAbsent are those for which no file is in the way, and those that there always are.
func TestMountPointsIfAbsent(t *testing.T) {
	t.Parallel()
	s := spec(api.Source{Ref: web})
	s.MountPoints, s.MountPointsIfAbsent = []string{"m"}, []string{"a", "a/b", "c", "z"}
	plan, err := treebuilder.Prepare(s, nil, objects(map[api.Ref][]string{web: {"a", "1", "m", "2"}}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c", "m", "z"}, plan.MountPoints()); diff != "" {
		t.Errorf("mount points (-want +got):\n%s", diff)
	}
	wantTree := plain(file("a", "1", 0o644))
	wantTree.MountPoints = []string{"c", "m", "z"}
	if diff := cmp.Diff(wantTree, plan.Tree()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

// TestLeftOutIsBounded: the text ends up in an Event.
func TestLeftOutIsBounded(t *testing.T) {
	t.Parallel()
	var pairs, points []string
	for i := range 64 {
		pairs = append(pairs, fmt.Sprintf("k%02d", i), "")
		points = append(points, fmt.Sprintf("k%02d", i))
	}
	s := spec(api.Source{Ref: web})
	s.MountPoints = points
	first, err := treebuilder.Prepare(s, nil, objects(map[api.Ref][]string{web: pairs}))
	if err != nil {
		t.Fatal(err)
	}
	got := first.LeftOut()
	if len(got) != 21 || got[0] != "key k00 of configmap default/web at path k00" || got[20] != "and 44 more" {
		t.Errorf("LeftOut = %q, want the first 20 and a count", got)
	}
	again, err := treebuilder.Prepare(s, nil, objects(map[api.Ref][]string{web: pairs}))
	if err != nil || !slices.Equal(again.LeftOut(), got) {
		t.Errorf("LeftOut differs from run to run: %q, %v", again.LeftOut(), err)
	}
}

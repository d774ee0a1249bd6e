package treebuilder_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// inNamespaces is a source that selects config maps in several namespaces.
func inNamespaces(path string, namespaces ...string) api.Source {
	src := selecting(path)
	src.Selection.Namespaces = namespaces
	return src
}

// moved returns an object as one of another namespace.
func moved(o treebuilder.Object, namespace string) treebuilder.Object {
	o.Content.Ref = o.Content.Ref.In(namespace)
	return o
}

func planOf(t *testing.T, spec api.Spec, selected treebuilder.Selected) []tree.File {
	t.Helper()
	plan, err := treebuilder.PrepareSelected(spec, nil, objects(map[api.Ref][]string{web: {"named", "1"}}), selected)
	expect.NoError(t, err)
	return plan.Tree().Files
}

// TestObjectsAreRecalledFromTheirFiles: they make the same files again, alone or beside those that were read.
func TestObjectsAreRecalledFromTheirFiles(t *testing.T) {
	t.Parallel()
	inFolder := object("d", 9, "k", "4")
	inFolder.Annotations = inAFolder("team/a b")
	one := []treebuilder.Object{object("a", 3, "x", "1", "y", "2"), inFolder}
	two := []treebuilder.Object{moved(object("a", 2, "x", "3"), "billing"), moved(object("e", 1, "z", ""), "billing")}
	for name, sources := range map[string][]api.Source{
		"by namespace": {inNamespaces("$(namespace)/$(name)/$(key)", "shop", "billing")},
		"by key":       {inNamespaces("$(key)", "shop", "billing")},
		"two sources":  {inNamespaces("a/$(name)/$(key)", "shop", "billing"), {Ref: web}, inNamespaces("b/$(key)", "billing", "shop")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := api.Spec{DefaultMode: 0o644, Sources: sources}
			whole, second := treebuilder.Selected{}, treebuilder.Selected{}
			for i, src := range sources {
				if src.Selection != nil {
					whole[i], second[i] = [][]treebuilder.Object{one, two}, [][]treebuilder.Object{two}
				}
			}
			files := planOf(t, spec, whole)
			all, err := treebuilder.Recall(spec, files, func(int, string) bool { return true })
			expect.NoError(t, err)
			if diff := cmp.Diff(files, planOf(t, spec, all)); diff != "" {
				t.Errorf("files of all recalled objects (-want +got):\n%s", diff)
			}
			first, err := treebuilder.Recall(spec, files, func(_ int, namespace string) bool { return namespace == "shop" })
			expect.NoError(t, err)
			for i, lists := range second {
				first[i] = append(first[i], lists...)
			}
			if diff := cmp.Diff(files, planOf(t, spec, first)); diff != "" {
				t.Errorf("files of recalled objects beside others (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingIsRecalledOfFilesOfUnknownSources, whatever else is there.
func TestNothingIsRecalledOfFilesOfUnknownSources(t *testing.T) {
	t.Parallel()
	spec := api.Spec{Sources: []api.Source{inNamespaces("$(namespace)/$(key)", "shop", "billing"), {Ref: web}}}
	const good = "0/1700000000/shop/a/k/"
	for name, tt := range map[string]struct {
		source, path string
		isKnown      bool
	}{
		"as it is":             {good, "shop/k", true},
		"of a named object":    {"named", "any", true},
		"no source":            {"", "shop/k", false},
		"too long":             {"0/1700000000/shop", "shop/k", false},
		"too long, not wanted": {"0/1700000000/other", "shop/k", true},
		"not wanted":           {"0/1700000000/other/a/k/", "shop/k", true},
		"another path":         {good, "shop/l", false},
		"a path that leaves":   {good + "../..", "../shop/k", false},
		"no number":            {strings.Replace(good, "0/", "x/", 1), "shop/k", false},
		"below all sources":    {strings.Replace(good, "0/", "-1/", 1), "shop/k", false},
		"behind all sources":   {strings.Replace(good, "0/", "2/", 1), "shop/k", false},
		"a source with a name": {strings.Replace(good, "0/", "1/", 1), "shop/k", false},
		"no time":              {strings.Replace(good, "1700000000", "now", 1), "shop/k", false},
		"too few fields":       {"0/1700000000/shop/a/k", "shop/k", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := []tree.File{{Path: "billing/l", Source: "0/1700000000/billing/b/l/"}, {Path: tt.path, Source: tt.source}}
			got, err := treebuilder.Recall(spec, files, func(_ int, namespace string) bool { return namespace != "other" })
			if (err == nil) != tt.isKnown || (len(got[0]) > 0) != tt.isKnown {
				t.Errorf("%d objects, error %v, want that they are known: %t", len(got[0]), err, tt.isKnown)
			}
		})
	}
}

// TestOnlyFilesThatMayBeRecalledHaveASource: a volume with one selection is all of one namespace, or of none.
func TestOnlyFilesThatMayBeRecalledHaveASource(t *testing.T) {
	t.Parallel()
	long := object("a", 1, "k", "1")
	long.Annotations = inAFolder(strings.Repeat(strings.Repeat("long", 50)+"/", 5) + "end")
	for name, tt := range map[string]struct {
		sources []api.Source
		object  treebuilder.Object
		want    string
	}{
		"one selection":        {[]api.Source{inNamespaces("$(key)", "shop")}, object("a", 1, "k", "1"), ""},
		"all namespaces":       {[]api.Source{inNamespaces("$(key)", api.AllNamespaces)}, object("a", 1, "k", "1"), ""},
		"two namespaces":       {[]api.Source{inNamespaces("$(key)", "shop", "x")}, object("a", 1, "k", "1"), "0/1699913600/shop/a/k/"},
		"a named object":       {[]api.Source{inNamespaces("$(key)", "shop"), {Ref: web}}, object("a", 1, "k", "1"), "0/1699913600/shop/a/k/"},
		"a very long folder":   {[]api.Source{inNamespaces("$(key)", "shop", "x")}, long, "0/1699913600/shop"},
		"no object but others": {[]api.Source{{Ref: web}, inNamespaces("$(key)", "shop")}, object("a", 1), "named"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := len(tt.sources) - 1
			if tt.sources[at].Selection == nil {
				at = 0
			}
			files := planOf(t, api.Spec{Sources: tt.sources}, treebuilder.Selected{at: {{tt.object}}})
			if got := files[0].Source; got != tt.want {
				t.Errorf("source = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestFilesOfTwoVersionsAreRecalled, as a writer of plain files leaves them that was killed: each stays where it is.
func TestFilesOfTwoVersionsAreRecalled(t *testing.T) {
	t.Parallel()
	src := inNamespaces("$(key)", "shop", "billing")
	src.Selection.FolderAnnotation = "folder"
	spec := api.Spec{DefaultMode: 0o644, Sources: []api.Source{src}}
	files := []tree.File{
		{Path: "new/k", Data: []byte("2"), Mode: 0o644, Source: "0/1700000000/shop/a/k/new"},
		{Path: "old/k", Data: []byte("1"), Mode: 0o644, Source: "0/1700000000/shop/a/k/old"},
		{Path: "old/l", Data: []byte("1"), Mode: 0o644, Source: "0/1600000000/shop/a/l/old"},
	}
	all, err := treebuilder.Recall(spec, files, func(int, string) bool { return true })
	expect.NoError(t, err)
	if diff := cmp.Diff(files, planOf(t, spec, all)); diff != "" {
		t.Errorf("files of recalled objects (-want +got):\n%s", diff)
	}
}

// TestSourceSizes are those of the files that have a source.
func TestSourceSizes(t *testing.T) {
	t.Parallel()
	one := object("a", 1, "k", "1", "l", "2")
	for _, tt := range []struct {
		namespaces []string
		want       []int
	}{
		{[]string{"shop"}, nil},
		{[]string{"billing", "shop"}, []int{len("0/1699913600/shop/a/k/"), len("0/1699913600/shop/a/l/")}},
	} {
		spec := api.Spec{Sources: []api.Source{inNamespaces("$(key)", tt.namespaces...)}}
		plan, err := treebuilder.PrepareSelected(spec, nil, nil, treebuilder.Selected{0: {{one}}})
		expect.NoError(t, err)
		if got := slices.Collect(plan.SourceSizes()); !slices.Equal(got, tt.want) {
			t.Errorf("sizes for %v = %v, want %v", tt.namespaces, got, tt.want)
		}
	}
}

// TestFoldersAreRecalledAsTheyAre, whatever an annotation has. One that no path can have leaves other objects alone.
func TestFoldersAreRecalledAsTheyAre(t *testing.T) {
	t.Parallel()
	spec := api.Spec{DefaultMode: 0o644, Sources: []api.Source{inNamespaces("$(namespace)/$(name)-$(key)", "shop", "billing")}}
	for folder, count := range map[string]int{
		"a\nb": 4, "a//b": 4, "a/b/": 4, "a/./b": 4, "0/1/2": 4, "named": 4, " ": 4, "": 4, ".": 4,
		"\xff": 2, "/a": 2, "..a": 2, "a/../b": 2, "a\x00": 2,
	} {
		o := object("d", 9, "k", "4", "k.l-m_n", "")
		o.Annotations = inAFolder(folder)
		files := planOf(t, spec, treebuilder.Selected{0: {{o, moved(object("d", 9, "k", "1", "l", "2"), "billing")}}})
		if len(files) != count {
			t.Errorf("folder %q: %d files, want %d", folder, len(files), count)
		}
		all, err := treebuilder.Recall(spec, files, func(int, string) bool { return true })
		expect.NoError(t, err)
		if diff := cmp.Diff(files, planOf(t, spec, all)); diff != "" {
			t.Errorf("folder %q: files of recalled objects (-want +got):\n%s", folder, diff)
		}
	}
}

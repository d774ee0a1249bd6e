package treebuilder_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// The rules in the names of cases are those of test/RULES.md.

var (
	web    = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "web"}
	extra  = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "extra"}
	cert   = api.Ref{Kind: api.Secret, Namespace: "default", Name: "cert"}
	other  = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "other"}
	shared = api.Ref{Kind: api.ConfigMap, Namespace: "shared", Name: "web"}
)

// objects returns contents that hold what is given for each ref, keys and values taking turns.
func objects(data map[api.Ref][]string) map[api.Ref]api.Content {
	contents := map[api.Ref]api.Content{}
	for ref, pairs := range data {
		c := api.Content{Ref: ref, UID: "u", ResourceVersion: "1", Data: map[string][]byte{}}
		for i := 0; i < len(pairs); i += 2 {
			c.Data[pairs[i]] = []byte(pairs[i+1])
		}
		contents[ref] = c
	}
	return contents
}

// spec returns the sources with the default mode and nothing else set.
func spec(sources ...api.Source) api.Spec {
	return api.Spec{Sources: sources, DefaultMode: api.DefaultMode}
}

func file(path, data string, m fs.FileMode) tree.File {
	return tree.File{Path: path, Data: []byte(data), Mode: m}
}

// plain returns a tree of files that nobody but root owns.
func plain(files ...tree.File) tree.Tree {
	if files == nil {
		files = []tree.File{}
	}
	return tree.Tree{Files: files, DirMode: 0o755}
}

// build returns the tree, which must be one.
func build(t *testing.T, s api.Spec, fsGroup *int, contents map[api.Ref]api.Content) tree.Tree {
	t.Helper()
	built, err := treebuilder.Build(s, fsGroup, contents)
	if err != nil {
		t.Fatalf("Build = %v, want no error", err)
	}
	return built
}

func TestBuild(t *testing.T) {
	t.Parallel()
	all := objects(map[api.Ref][]string{
		web:    {"a", "A", "b", "B"},
		extra:  {"b", "extra B", "c", "C"},
		cert:   {"tls.crt", "CRT", "tls.key", "KEY", "b", "secret B"},
		shared: {"a", "shared A"},
	})
	tests := map[string]struct {
		spec     api.Spec
		contents map[api.Ref]api.Content
		want     tree.Tree
	}{
		"no sources make an empty volume": {
			want: plain(),
		},
		"rule 1: without items every key is a file with the key's name": {
			spec: spec(api.Source{Ref: web}),
			want: plain(file("a", "A", 0o644), file("b", "B", 0o644)),
		},
		"rule 1: an empty list of items is not a list": {
			spec: spec(api.Source{Ref: web, Items: []api.Item{}}),
			want: plain(file("a", "A", 0o644), file("b", "B", 0o644)),
		},
		"rule 1: a secret's keys are files too": {
			spec: spec(api.Source{Ref: cert}),
			want: plain(file("b", "secret B", 0o644), file("tls.crt", "CRT", 0o644), file("tls.key", "KEY", 0o644)),
		},
		"rule 1: an object without keys makes an empty volume": {
			spec:     spec(api.Source{Ref: web}),
			contents: objects(map[api.Ref][]string{web: {}}),
			want:     plain(),
		},
		"rule 2: with items only listed keys are there, at their paths": {
			spec: spec(api.Source{Ref: web, Items: []api.Item{{Key: "b", Path: "etc/conf.d/b.conf"}}}),
			want: plain(file("etc/conf.d/b.conf", "B", 0o644)),
		},
		"rule 2: one key may go to several paths": {
			spec: spec(api.Source{Ref: web, Items: []api.Item{{Key: "a", Path: "x"}, {Key: "a", Path: "y/z"}}}),
			want: plain(file("x", "A", 0o644), file("y/z", "A", 0o644)),
		},
		"rule 3: an item's mode goes before the volume's, and zero is a mode": {
			spec: api.Spec{DefaultMode: 0o600, Sources: []api.Source{{Ref: web, Items: []api.Item{
				{Key: "a", Path: "default"}, {Key: "a", Path: "none", Mode: new(fs.FileMode(0))}, {Key: "a", Path: "own", Mode: new(fs.FileMode(0o444))},
			}}}},
			want: plain(file("default", "A", 0o600), file("none", "A", 0), file("own", "A", 0o444)),
		},
		"rule 3: one default mode holds for all sources": {
			spec: api.Spec{DefaultMode: 0o400, Sources: []api.Source{{Ref: shared}, {Ref: extra}}},
			want: plain(file("a", "shared A", 0o400), file("b", "extra B", 0o400), file("c", "C", 0o400)),
		},
		"rule 5: modes reach from nothing to everything": {
			spec: api.Spec{DefaultMode: 0, Sources: []api.Source{{Ref: web, Items: []api.Item{
				{Key: "a", Path: "least"}, {Key: "a", Path: "most", Mode: new(fs.FileMode(0o777))},
			}}}},
			want: plain(file("least", "A", 0), file("most", "A", 0o777)),
		},
		"rule 7: an optional object that does not exist adds nothing": {
			spec:     spec(api.Source{Ref: cert, Optional: true}, api.Source{Ref: web}),
			contents: objects(map[api.Ref][]string{web: {"a", "A"}}),
			want:     plain(file("a", "A", 0o644)),
		},
		"rule 7: optional forgives a missing object even where items name its keys": {
			spec:     spec(api.Source{Ref: cert, Optional: true, Items: []api.Item{{Key: "tls.crt", Path: "crt"}}}),
			contents: objects(nil),
			want:     plain(),
		},
		"rule 8: optional skips missing keys and keeps the others": {
			spec: spec(api.Source{Ref: web, Optional: true, Items: []api.Item{
				{Key: "gone", Path: "gone"}, {Key: "a", Path: "here"},
			}}),
			want: plain(file("here", "A", 0o644)),
		},
		"rule 12: a later source overwrites content and mode, whatever the kinds": {
			spec: spec(api.Source{Ref: web}, api.Source{Ref: cert, Items: []api.Item{
				{Key: "tls.crt", Path: "a", Mode: new(fs.FileMode(0o400))},
			}}),
			want: plain(file("a", "CRT", 0o400), file("b", "B", 0o644)),
		},
		"rule 12: the order of the list decides, not the kind": {
			spec: spec(api.Source{Ref: cert}, api.Source{Ref: extra}),
			want: plain(file("b", "extra B", 0o644), file("c", "C", 0o644), file("tls.crt", "CRT", 0o644), file("tls.key", "KEY", 0o644)),
		},
		"rule 12: when the winner is gone the loser is back": {
			spec:     spec(api.Source{Ref: web}, api.Source{Ref: extra, Optional: true}),
			contents: objects(map[api.Ref][]string{web: {"b", "B"}}),
			want:     plain(file("b", "B", 0o644)),
		},
		"rule 12: the same object may be projected twice": {
			spec: spec(api.Source{Ref: web}, api.Source{Ref: web, Items: []api.Item{{Key: "a", Path: "b"}}}),
			want: plain(file("a", "A", 0o644), file("b", "A", 0o644)),
		},
		"rule 13: of two items with one path the last wins": {
			spec: spec(api.Source{Ref: web, Items: []api.Item{
				{Key: "a", Path: "x", Mode: new(fs.FileMode(0o600))}, {Key: "b", Path: "x"},
			}}),
			want: plain(file("x", "B", 0o644)),
		},
		"rule 16: bytes are copied as they are": {
			spec: spec(api.Source{Ref: web}),
			contents: objects(map[api.Ref][]string{
				web: {"empty", "", "nul", "a\x00b", "binary", "\xff\xfe", "no newline", "x", "newline", "x\n"},
			}),
			want: plain(file("binary", "\xff\xfe", 0o644), file("empty", "", 0o644), file("newline", "x\n", 0o644),
				file("no newline", "x", 0o644), file("nul", "a\x00b", 0o644)),
		},
		"rule 18: odd key names are kept, and case distinguishes them": {
			spec: spec(api.Source{Ref: web}),
			contents: objects(map[api.Ref][]string{
				web: {"-rf", "1", ".hidden", "2", "a..b", "3", "end..", "4", "A", "5", "_", "6"},
			}),
			want: plain(file("-rf", "1", 0o644), file(".hidden", "2", 0o644), file("A", "5", 0o644),
				file("_", "6", 0o644), file("a..b", "3", 0o644), file("end..", "4", 0o644)),
		},
		"objects of one name in two namespaces are two objects": {
			spec: spec(api.Source{Ref: shared}, api.Source{Ref: web, Items: []api.Item{{Key: "a", Path: "own"}}}),
			want: plain(file("a", "shared A", 0o644), file("own", "A", 0o644)),
		},
		"contents that no source names are left out": {
			spec: spec(api.Source{Ref: shared}),
			want: plain(file("a", "shared A", 0o644)),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contents := tt.contents
			if contents == nil {
				contents = all
			}
			got := build(t, tt.spec, nil, contents)
			wantSame(t, "Build", tt.want, got)
		})
	}
}

func TestBuildRefusesWhatIsMissing(t *testing.T) {
	t.Parallel()
	item := func(keys ...string) []api.Item {
		var items []api.Item
		for _, k := range keys {
			items = append(items, api.Item{Key: k, Path: "at/" + k})
		}
		return items
	}
	tests := map[string]struct {
		spec    api.Spec
		wantErr string
	}{
		"rule 9: a required config map": {
			spec:    spec(api.Source{Ref: extra}),
			wantErr: `configmap "extra" not found`,
		},
		"rule 9: a required secret": {
			spec:    spec(api.Source{Ref: cert}),
			wantErr: `secret "cert" not found`,
		},
		"rule 9: a required key of a config map": {
			spec:    spec(api.Source{Ref: web, Items: item("nope")}),
			wantErr: `configmap references non-existent config key: nope (configmap default/web, items[0])`,
		},
		"rule 9: a required key of a secret": {
			spec:    spec(api.Source{Ref: api.Ref{Kind: api.Secret, Namespace: "default", Name: "there"}, Items: item("nope")}),
			wantErr: `references non-existent secret key: nope (secret default/there, items[0])`,
		},
		"rule 9: a key of a secret that nobody can read": {
			spec:    spec(api.Source{Ref: api.Ref{Kind: api.Secret, Namespace: "default", Name: "there"}, Items: item("a\nb")}),
			wantErr: `references non-existent secret key: "a\nb" (secret default/there, items[0])`,
		},
		"rule 11: a key of two objects": {
			spec: spec(api.Source{Ref: web, Items: item("x")},
				api.Source{Ref: api.Ref{Kind: api.Secret, Namespace: "default", Name: "there"}, Items: item("x", "x")}),
			wantErr: `[configmap references non-existent config key: x (configmap default/web, sources[0].configMap.items[0]), ` +
				`references non-existent secret key: x (secret default/there, sources[1].secret.items[0])]`,
		},
		"rule 9: an object that is not there is one problem however many of its keys are named": {
			spec:    spec(api.Source{Ref: extra, Items: item("a", "b")}),
			wantErr: `configmap "extra" not found`,
		},
		"rule 8: optional elsewhere forgives nothing here": {
			spec:    spec(api.Source{Ref: extra, Optional: true}, api.Source{Ref: cert}),
			wantErr: `secret "cert" not found`,
		},
		"rule 11: everything that is missing, in the order of the sources": {
			spec: spec(api.Source{Ref: web, Items: item("x", "a", "y")}, api.Source{Ref: cert}, api.Source{Ref: extra}),
			wantErr: `[configmap references non-existent config key: x (configmap default/web, sources[0].configMap.items[0]), ` +
				`configmap references non-existent config key: y (configmap default/web, sources[0].configMap.items[2]), ` +
				`secret "cert" not found, configmap "extra" not found]`,
		},
		"rule 11: equal texts once": {
			spec:    spec(api.Source{Ref: extra}, api.Source{Ref: extra, Items: item("k")}),
			wantErr: `configmap "extra" not found`,
		},
		"rule 11: what is there does not help": {
			spec:    spec(api.Source{Ref: web}, api.Source{Ref: cert}),
			wantErr: `secret "cert" not found`,
		},
		"rule 11: missing comes before a conflict of what is there": {
			spec: spec(api.Source{Ref: cert},
				api.Source{Ref: web, Items: []api.Item{{Key: "a", Path: "foo"}, {Key: "b", Path: "foo/bar"}}}),
			wantErr: `secret "cert" not found`,
		},
	}
	contents := objects(map[api.Ref][]string{
		web: {"a", "A", "b", "B"},
		{Kind: api.Secret, Namespace: "default", Name: "there"}: {"k", "K"},
	})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := treebuilder.Build(tt.spec, nil, contents)
			var missing *treebuilder.MissingError
			if !errors.As(err, &missing) || err.Error() != tt.wantErr {
				t.Errorf("Build = %T %v, want a *MissingError %s", err, err, tt.wantErr)
			}
			wantSame(t, "Build made something all the same", tree.Tree{}, got)
		})
	}
}

func TestBuildRefusesConflicts(t *testing.T) {
	t.Parallel()
	contents := objects(map[api.Ref][]string{web: {"a", "A", "b", "B"}, extra: {"foo", "F", "foo-bar", "FB"}})
	tests := map[string]struct {
		spec api.Spec
		want tree.ConflictError
	}{
		"rule 14: a file and a directory of one source": {
			spec: spec(api.Source{Ref: web, Items: []api.Item{{Key: "a", Path: "foo/bar"}, {Key: "b", Path: "foo"}}}),
			want: tree.ConflictError{Path: "foo", Below: "foo/bar"},
		},
		"rule 14: a file and a directory of two sources, with a neighbour that sorts between": {
			spec: spec(api.Source{Ref: web, Items: []api.Item{{Key: "a", Path: "foo/bar/baz"}}}, api.Source{Ref: extra}),
			want: tree.ConflictError{Path: "foo", Below: "foo/bar/baz"},
		},
	}
	for name, tt := range tests {
		_, err := treebuilder.Build(tt.spec, nil, contents)
		var conflict *tree.ConflictError
		if !errors.As(err, &conflict) || *conflict != tt.want {
			t.Errorf("%s: Build = %v, want %v", name, err, &tt.want)
		}
	}
}

func wantSame[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

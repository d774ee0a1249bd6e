package api_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// good is an input and what becomes of it in a pod of the namespace default.
type good struct {
	in   attributes
	want api.Spec
}

// spec is a Spec of the sources with every default.
func spec(sources ...api.Source) api.Spec {
	return api.Spec{
		Sources: sources, DefaultMode: 0o644, UpdatePolicy: api.UpdateAtomic, OnDelete: api.OnDeleteKeep,
	}
}

func source(kind api.Kind, namespace, name string, items ...api.Item) api.Source {
	return api.Source{Ref: api.Ref{Kind: kind, Namespace: namespace, Name: name}, Items: items}
}

func optional(src api.Source) api.Source {
	src.Optional = true
	return src
}

func item(key, path string) api.Item { return api.Item{Key: key, Path: path} }

func itemMode(key, path string, mode fs.FileMode) api.Item {
	return api.Item{Key: key, Path: path, Mode: &mode}
}

func goodItems(text string, want ...api.Item) good {
	return good{in: attributes{"configMap": "app", "items": text}, want: spec(source(api.ConfigMap, "default", "app", want...))}
}

func goodSources(text string, want ...api.Source) good {
	return good{in: attributes{"sources": text}, want: spec(want...)}
}

func testGood(t *testing.T, tests map[string]good) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := api.Parse(tc.in, "default")
			if err != nil {
				t.Fatalf("Parse(%v) error: %v", tc.in, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Parse(%v) (-want +got):\n%s", tc.in, diff)
			}
		})
	}
}

func TestParseAttributes(t *testing.T) {
	t.Parallel()
	app := source(api.ConfigMap, "default", "app")
	change := func(f func(*api.Spec)) api.Spec {
		s := spec(app)
		f(&s)
		return s
	}
	id := func(n int) *int { return &n }
	testGood(t, map[string]good{
		"rule 4: a ConfigMap with every default": {in: attributes{"configMap": "app"}, want: spec(app)},
		"a Secret of another namespace": {
			in:   attributes{"secret": "tls.example.com", "namespace": "shared"},
			want: spec(source(api.Secret, "shared", "tls.example.com")),
		},
		"what the kubelet adds is ignored": {
			in: with(attributes{
				"csi.storage.k8s.io/pod.namespace":         "other",
				"csi.storage.k8s.io/serviceAccount.tokens": "{}",
				"csi.storage.k8s.io/anything":              "",
			}),
			want: spec(app),
		},
		"every attribute of the short form": {
			in: attributes{
				"secret": "tls", "namespace": "certs", "items": `[{key: tls.key, path: key, mode: 0400}]`, "optional": "true",
				"defaultMode": "0440", "uid": "101", "gid": "0", "updatePolicy": "Replace", "onDelete": "Remove",
			},
			want: api.Spec{
				Sources:     []api.Source{optional(source(api.Secret, "certs", "tls", itemMode("tls.key", "key", 0o400)))},
				DefaultMode: 0o440, UID: id(101), GID: id(0), UpdatePolicy: api.UpdateReplace, OnDelete: api.OnDeleteRemove,
			},
		},
		"every attribute of the long form": {
			in: attributes{
				"sources": `[configMap: {name: app}]`, "defaultMode": "0o600", "uid": "2147483647", "gid": "1",
				"updatePolicy": "InPlace", "onDelete": "Keep",
			},
			want: api.Spec{
				Sources: []api.Source{app}, DefaultMode: 0o600, UID: id(2147483647), GID: id(1),
				UpdatePolicy: api.UpdateInPlace, OnDelete: api.OnDeleteKeep,
			},
		},
		"mount points are cleaned and sorted": {
			in:   with(attributes{"mountPoints": "[new, ./a//m, a]"}),
			want: change(func(s *api.Spec) { s.MountPoints = []string{"a", "a/m", "new"} }),
		},
		"mount points that may have a file": {
			in:   with(attributes{"mountPoints": "[{path: b/, ifAbsent: true}, {path: a}, {path: c, ifAbsent: false}, {path: ab, ifAbsent: true}]"}),
			want: change(func(s *api.Spec) { s.MountPoints, s.MountPointsIfAbsent = []string{"a", "c"}, []string{"ab", "b"} }),
		},
		"mount points as JSON": {
			in:   with(attributes{"mountPoints": `["custom"]`}),
			want: change(func(s *api.Spec) { s.MountPoints = []string{"custom"} }),
		},
		"no mount points":               {in: with(attributes{"mountPoints": " "}), want: spec(app)},
		"no mount points, JSON":         {in: with(attributes{"mountPoints": "[]"}), want: spec(app)},
		"not optional in so many words": {in: with(attributes{"optional": "false"}), want: spec(app)},
		"octal without a leading zero": {
			in: with(attributes{"defaultMode": "440"}), want: change(func(s *api.Spec) { s.DefaultMode = 0o440 }),
		},
		"rule 3: mode zero is a set value": {
			in: with(attributes{"defaultMode": "0"}), want: change(func(s *api.Spec) { s.DefaultMode = 0 }),
		},
		"rule 5: the largest mode": {
			in: with(attributes{"defaultMode": "0777"}), want: change(func(s *api.Spec) { s.DefaultMode = 0o777 }),
		},
		"root in so many words": {
			in:   with(attributes{"uid": "0", "gid": "0"}),
			want: change(func(s *api.Spec) { s.UID, s.GID = id(0), id(0) }),
		},
		"the user by core/v1's name": {
			in:   with(attributes{"defaultUser": "999"}),
			want: change(func(s *api.Spec) { s.UID = id(999) }),
		},
		"the user by both names": {
			in:   with(attributes{"uid": "999", "defaultUser": "999"}),
			want: change(func(s *api.Spec) { s.UID = id(999) }),
		},
		"users of single files": {
			in: with(attributes{"items": "[{key: a, path: a, user: 2147483647}, {key: b, path: b, user: 0}, {key: c, path: c, user: null}]"}),
			want: change(func(s *api.Spec) {
				s.Sources[0].Items = []api.Item{{Key: "a", Path: "a", User: id(2147483647)}, {Key: "b", Path: "b", User: id(0)}, {Key: "c", Path: "c"}}
			}),
		},
		"no updates": {
			in:   with(attributes{"updatePolicy": "Never"}),
			want: change(func(s *api.Spec) { s.UpdatePolicy = api.UpdateNever }),
		},
		"the defaults in so many words": {
			in:   with(attributes{"updatePolicy": "Atomic", "onDelete": "Keep", "defaultMode": "0644"}),
			want: spec(app),
		},
	})
}

func TestParseItems(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("x", 63)+"/", 63) + strings.Repeat("y", 64)
	testGood(t, map[string]good{
		"rule 1: no items":               goodItems(""),
		"rule 1: blank items":            goodItems(" \n"),
		"rule 1: items that are comment": goodItems("# all keys\n"),
		"rule 1: items that are null":    goodItems("null"),
		"rule 1: an empty list of items": goodItems("[]"),
		"YAML, a line for each field":    goodItems("- key: a\n  path: b\n  mode: 0600\n- key: c\n  path: d\n", itemMode("a", "b", 0o600), item("c", "d")),
		"JSON":                           goodItems(`[{"key": "a", "path": "b\u002fc", "mode": 256}]`, itemMode("a", "b/c", 0o400)),
		"a document with its marks":      goodItems("---\n- {key: a, path: b}\n...\n# end\n", item("a", "b")),
		"a byte-order mark":              goodItems("\ufeff[{key: a, path: b}]", item("a", "b")),
		"rule 3: mode zero":              goodItems(`[{key: a, path: b, mode: 0}]`, itemMode("a", "b", 0)),
		"rule 3: no mode and null":       goodItems(`[{key: a, path: a}, {key: b, path: b, mode: ~}]`, item("a", "a"), item("b", "b")),
		"rule 6: one mode in many spellings": goodItems(`
- {key: k, path: a, mode: 0644}
- {key: k, path: b, mode: 0o644}
- {key: k, path: c, mode: 420}
- {key: k, path: d, mode: 0x1a4}
- {key: k, path: e, mode: 420.0}
- {key: k, path: f, mode: 4_2_0}
- {key: k, path: g, mode: 4.2e2}
- {"key": "k", "path": "h", "mode": 0644}
- {key: k, path: i, mode: 0b110100100}
`, itemMode("k", "a", 0o644), itemMode("k", "b", 0o644), itemMode("k", "c", 0o644), itemMode("k", "d", 0o644),
			itemMode("k", "e", 0o644), itemMode("k", "f", 0o644), itemMode("k", "g", 0o644), itemMode("k", "h", 0o644),
			itemMode("k", "i", 0o644)),
		"rule 6: strings that need quotes": goodItems(
			`[{key: "8080", path: 'yes'}, {key: !!str 5, path: 2001-01-01}]`, item("8080", "yes"), item("5", "2001-01-01")),
		"rule 6: the largest mode": goodItems(`[{key: a, path: b, mode: 511}]`, itemMode("a", "b", 0o777)),
		"rule 13: the last of two wins, and both keys must exist": goodItems(
			`[{key: a, path: x}, {key: b, path: x, mode: 0400}]`, item("a", "x"), itemMode("b", "x", 0o400)),
		"rule 13: the last of three in one odd spelling wins": goodItems(
			`[{key: a, path: x//y}, {key: b, path: x//y}, {key: c, path: x//y}]`,
			item("a", "x/y"), item("b", "x/y"), item("c", "x/y")),
		"rule 18: keys are not checked, the object decides": goodItems(
			`[{key: "no such/key", path: a}, {key: ..., path: b}]`, item("no such/key", "a"), item("...", "b")),
		"rule 24: an element of 255 bytes": goodItems(
			`[{key: a, path: `+strings.Repeat("x", 255)+`}]`, item("a", strings.Repeat("x", 255))),
		"rule 24: a path of 4096 bytes in 64 elements": goodItems(`[{key: a, path: `+long+`}]`, item("a", long)),
		"elements that cleaning removes do not count": goodItems(
			`[{key: a, path: "`+strings.Repeat("./", 100)+strings.Repeat("d//", 63)+`f/"}]`,
			item("a", strings.Repeat("d/", 63)+"f")),
		"rule 25: unicode, blanks, quotes, backslashes": goodItems(
			`[{key: a, path: "é ü/ 日本"}, {key: b, path: "it's \"x\"\\y"}, {key: c, path: "two\nlines"}]`,
			item("a", "é ü/ 日本"), item("b", `it's "x"\y`), item("c", "two\nlines")),
		"rule 26: two dots that are not at the start": goodItems(
			`[{key: a, path: p/..p/p../p..p}, {key: b, path: a/...}, {key: c, path: p..}, {key: d, path: b/..data}]`,
			item("a", "p/..p/p../p..p"), item("b", "a/..."), item("c", "p.."), item("d", "b/..data")),
		"rule 26: paths are cleaned": goodItems(
			`[{key: a, path: foo//bar}, {key: b, path: ./x}, {key: c, path: y/}, {key: d, path: z/.}, {key: e, path: .hidden}]`,
			item("a", "foo/bar"), item("b", "x"), item("c", "y"), item("d", "z"), item("e", ".hidden")),
		"rule 14: a file and a directory, of which one is optional": {
			in:   attributes{"configMap": "app", "optional": "true", "items": `[{key: a, path: foo}, {key: b, path: foo/bar}]`},
			want: spec(optional(source(api.ConfigMap, "default", "app", item("a", "foo"), item("b", "foo/bar")))),
		},
		"rule 24: 127 characters of two bytes": goodItems(
			`[{key: a, path: `+strings.Repeat("é", 127)+`}]`, item("a", strings.Repeat("é", 127))),
		"a common directory and a common prefix do not conflict": goodItems(
			`[{key: a, path: d/a}, {key: b, path: d/b}, {key: c, path: da}, {key: d, path: d.a}, {key: e, path: e/f/g}, {key: f, path: e/h}]`,
			item("a", "d/a"), item("b", "d/b"), item("c", "da"), item("d", "d.a"), item("e", "e/f/g"), item("f", "e/h")),
		"text that only looks like an anchor and an alias": goodItems(
			`[{key: "&a", path: "*a"}, {key: b, path: a & *b}]`, item("&a", "*a"), item("b", "a & *b")),
		"text that only looks like a merge key": goodItems(
			`[{key: "<<", path: a, mode: 0400}, {key: b, path: "b<<c"}]`, itemMode("<<", "a", 0o400), item("b", "b<<c")),
	})
}

func TestParseSources(t *testing.T) {
	t.Parallel()
	testGood(t, map[string]good{
		"rule 15: no sources at all":           goodSources("[]"),
		"rule 15: entries that name no source": goodSources(`[{}, ~, {configMap: ~}, {secret: null, downwardAPI: null}]`),
		"rule 15: an entry of no kind between others": goodSources(
			`[{configMap: {name: a}}, {}, {secret: {name: b}, configMap: ~}]`,
			source(api.ConfigMap, "default", "a"), source(api.Secret, "default", "b")),
		"rule 19: two kinds, two namespaces, items, optional": goodSources(`
- configMap: {name: app, optional: true, items: [{key: a, path: conf.d/a}]}
- secret: {name: tls, namespace: certs}
`, optional(source(api.ConfigMap, "default", "app", item("a", "conf.d/a"))), source(api.Secret, "certs", "tls")),
		"JSON": goodSources(
			`[{"secret":{"name":"tls","items":[{"key":"k","path":"p","mode":256}],"optional":false}}]`,
			source(api.Secret, "default", "tls", itemMode("k", "p", 0o400))),
		"rule 4: null is what is not set": goodSources(
			`[{secret: {name: tls, namespace: ~, items: ~, optional: ~}}]`, source(api.Secret, "default", "tls")),
		"rule 1: an empty list of items": goodSources(`[{secret: {name: tls, items: []}}]`, source(api.Secret, "default", "tls")),
		"rule 6: booleans as YAML 1.1 reads them": goodSources(`
- configMap: {name: a, optional: yes}
- configMap: {name: b, optional: on}
- configMap: {name: c, optional: Off}
- configMap: {name: d, optional: n}
- configMap: {name: e, optional: TRUE}
`, optional(source(api.ConfigMap, "default", "a")), optional(source(api.ConfigMap, "default", "b")),
			source(api.ConfigMap, "default", "c"), source(api.ConfigMap, "default", "d"),
			optional(source(api.ConfigMap, "default", "e"))),
		"rule 14: a file and a directory, and the optional one says so at the end": goodSources(
			`[{secret: {name: a, items: [{key: k, path: x/y/z}], optional: true}}, {configMap: {name: b, items: [{key: l, path: x}]}}]`,
			optional(source(api.Secret, "default", "a", item("k", "x/y/z"))), source(api.ConfigMap, "default", "b", item("l", "x"))),
		"rule 12: one object twice": goodSources(
			`[{configMap: {name: a}}, {configMap: {name: a, items: [{key: k, path: p}]}}]`,
			source(api.ConfigMap, "default", "a"), source(api.ConfigMap, "default", "a", item("k", "p"))),
	})
}

func TestParseWithoutThePodsNamespace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   attributes
		want string
	}{
		"every source names its own": {in: attributes{"sources": `[{secret: {name: a, namespace: b}}]`}},
		"the short form names its own": {
			in: attributes{"configMap": "a", "namespace": "b"},
		},
		"the short form names none": {
			in: attributes{"configMap": "a"},
			want: `mistake in volumeAttributes: ` +
				`namespace: Required value: the pod's namespace is not known, write which one to use`,
		},
		"one source names none": {
			in: attributes{"sources": `[{secret: {name: a, namespace: b}}, {secret: {name: c}}]`},
			want: `mistake in volumeAttributes: ` +
				`sources[1].secret.namespace: Required value: the pod's namespace is not known, write which one to use`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if _, err := api.Parse(tc.in, ""); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("Parse(%v) error = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

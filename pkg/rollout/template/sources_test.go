package template_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPointKeepsWhatPeopleWrote has the long form as people write it: only the names change, and pointing back gives the
// very text again.
func TestPointKeepsWhatPeopleWrote(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in, want string
	}{
		"lines, with comments": {
			in:   "# foo first\n- configMap: # foo\n    # foo\n    name: foo   # foo\n    optional: true\n\n- secret:\n    name: tls\n",
			want: "# foo first\n- configMap: # foo\n    # foo\n    name: foo-0123456789   # foo\n    optional: true\n\n- secret:\n    name: tls-0123456789\n",
		},
		"JSON": {
			in:   `[{"configMap":{"name":"foo","items":[{"key":"foo","path":"foo"}]}}, {"secret" : {"name" : "foo"}}]`,
			want: `[{"configMap":{"name":"foo-0123456789","items":[{"key":"foo","path":"foo"}]}}, {"secret" : {"name" : "foo-9876543210"}}]`,
		},
		"both kinds of quotes": {
			in:   `[{configMap: {name: 'foo'}}, {configMap: {name: "foo"}}, {configMap: {'name': foo}}]`,
			want: `[{configMap: {name: 'foo-0123456789'}}, {configMap: {name: "foo-0123456789"}}, {configMap: {'name': foo-0123456789}}]`,
		},
		"the name after the rest": {
			in:   "- configMap: {items: [{key: name, path: foo}], namespace: default, name: foo}",
			want: "- configMap: {items: [{key: name, path: foo}], namespace: default, name: foo-0123456789}",
		},
		"other namespaces and entries that name nothing": {
			in:   "[{}, {configMap: {name: foo, namespace: foo}}, {configMap: , secret: {name: foo}}, null, {secret: ~}, {configMap: {name: foo}}]",
			want: "[{}, {configMap: {name: foo, namespace: foo}}, {configMap: , secret: {name: foo-9876543210}}, null, {secret: ~}, {configMap: {name: foo-0123456789}}]",
		},
		"names like the fields": {
			in:   "[{configMap: {name: name}}, {secret: {name: secret}}]",
			want: "[{configMap: {name: name-0123456789}}, {secret: {name: secret}}]",
		},
		"Windows' line ends": {
			in:   "# a\r\n- configMap:\r\n    name: foo\r\n- secret:\r\n    name: 'tls'\r\n",
			want: "# a\r\n- configMap:\r\n    name: foo-0123456789\r\n- secret:\r\n    name: 'tls-0123456789'\r\n",
		},
		"the line ends of YAML 1.1": {
			in:   "# a\r- configMap: {name: foo}\u0085- secret: {name: tls}\u2028# b\u2029- secret: {name: tls}",
			want: "# a\r- configMap: {name: foo-0123456789}\u0085- secret: {name: tls-0123456789}\u2028# b\u2029- secret: {name: tls-0123456789}",
		},
		"a byte-order mark": {
			in:   "\ufeff[{configMap: {name: foo}}]",
			want: "\ufeff[{configMap: {name: foo-0123456789}}]",
		},
		"the marks of a document": {
			in:   "%YAML 1.1\n--- # foo\n- configMap: {name: foo}\n...\n# foo\n",
			want: "%YAML 1.1\n--- # foo\n- configMap: {name: foo-0123456789}\n...\n# foo\n",
		},
		"a document in its first line": {
			in:   "--- [{configMap: {name: foo}}]",
			want: "--- [{configMap: {name: foo-0123456789}}]",
		},
		"tabs": {
			in:   "[\t{configMap:\t{name:\tfoo\t}}\t]\t# foo",
			want: "[\t{configMap:\t{name:\tfoo-0123456789\t}}\t]\t# foo",
		},
		"brackets over several lines": {
			in:   "[\n  {configMap:\n    {\n\tname:\n  foo\n\n,optional: true}},\n]\n",
			want: "[\n  {configMap:\n    {\n\tname:\n  foo-0123456789\n\n,optional: true}},\n]\n",
		},
		"no blanks at all": {
			in:   `[configMap: {name: foo},{"configMap":{"name":foo}}]`,
			want: `[configMap: {name: foo-0123456789},{"configMap":{"name":foo-0123456789}}]`,
		},
		"characters of several bytes before the name": {
			in:   "- configMap: {items: [{key: é, path: 日本/😀}], name: foo} # ü\n- secret: {items: [{key: 'ß', path: ß}], name: 'tls'}",
			want: "- configMap: {items: [{key: é, path: 日本/😀}], name: foo-0123456789} # ü\n- secret: {items: [{key: 'ß', path: ß}], name: 'tls-0123456789'}",
		},
		"one file of all keys": {
			in: "- configMap:\n    as: {path: foo, format: dotenv}\n    items: [{key: foo}]\n    name: foo\n" +
				"- secret: {name: tls, as: {format: json, path: name, mode: 0400}}\n",
			want: "- configMap:\n    as: {path: foo, format: dotenv}\n    items: [{key: foo}]\n    name: foo-0123456789\n" +
				"- secret: {name: tls-0123456789, as: {format: json, path: name, mode: 0400}}\n",
		},
		"a name in a separate line": {
			in:   "- configMap:\n    name: # foo\n      # foo\n      foo\n- ? secret\n  : ? name\n    : tls\n",
			want: "- configMap:\n    name: # foo\n      # foo\n      foo-0123456789\n- ? secret\n  : ? name\n    : tls-0123456789\n",
		},
		"a name in a block": {
			in:   "- configMap:\n    name: |- # foo\n      foo\n- secret:\n    name: >2-  \n      tls\n",
			want: "- configMap:\n    name: |- # foo\n      foo-0123456789\n- secret:\n    name: >2-  \n      tls-0123456789\n",
		},
		"tags": {
			in:   `[{configMap: !!map {!!str name: !!str foo}}, {configMap: {name: ! "foo"}}, {configMap: {name: !<tag:yaml.org,2002:str> foo}}]`,
			want: `[{configMap: !!map {!!str name: !!str foo-0123456789}}, {configMap: {name: ! "foo-0123456789"}}, {configMap: {name: !<tag:yaml.org,2002:str> foo-0123456789}}]`,
		},
		"a name that would be a number": {
			in:   "[{configMap: {name: 1e}}, {configMap: {name: '1e'}}]",
			want: "[{configMap: {name: !!str 1e-0123456789}}, {configMap: {name: '1e-0123456789'}}]",
		},
		"a name that is not a number by its tag": {
			in:   "[{configMap: {name: ! 2}}, {configMap: {name: !!str '1e'}}]",
			want: "[{configMap: {name: ! 2-0123456789}}, {configMap: {name: !!str '1e-0123456789'}}]",
		},
		"a name that would be another number": {
			in:   "[{configMap: {name: !!str 3}}]",
			want: "[{configMap: {name: !!str 4e5}}]",
		},
		"a name that would be a number no longer": {
			in:   `[{configMap: {name: !!str 2}}, {configMap: {name: "2"}}]`,
			want: `[{configMap: {name: 2-0123456789}}, {configMap: {name: "2-0123456789"}}]`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pointed, err := point(t, long(tc.in), copies())
			if err != nil {
				t.Fatalf("Point: %v", err)
			}
			if diff := cmp.Diff(long(tc.want), pointed); diff != "" {
				t.Errorf("Point (-want +got):\n%s", diff)
			}
			_, back, err := point(t, pointed, swapped(copies()))
			if diff := cmp.Diff(long(tc.in), back); diff != "" || err != nil {
				t.Errorf("after pointing back: error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestPointWritesAnew has texts in which a name cannot be changed where it stands.
func TestPointWritesAnew(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in, want string
	}{
		"a name with an escape": {
			in:   `[{"configMap": {"name": "f\u006fo", "optional": true}}] # comment`,
			want: "- configMap: {name: foo-0123456789, optional: true}\n",
		},
		"a quoted port and a word": {
			in: `[{configMap: {name: "f\u006fo", items: [{key: k, path: foo, mode: 0400}, {key: "8080", path: 'yes'}]}}, {secret: {name: x, namespace: other}}]`,
			want: `- configMap: {name: foo-0123456789, items: [{key: k, path: foo, mode: 0400}, {key: "8080", path: "yes"}]}
- secret: {name: x, namespace: other}
`,
		},
		"paths of odd characters": {
			in: `[{configMap: {name: "fo\x6f", items: [{key: a, path: "two\nlines"}, {key: b, path: "it's \"é\" 😀"}, {key: 1e, path: ~a}]}}]`,
			want: `- configMap: {name: foo-0123456789, items: [{key: a, path: "two\nlines"}, {key: b, path: "it's \"é\" \U0001F600"}, {key: 1e, path: ~a}]}
`,
		},
		"one file of all keys": {
			in: `[{configMap: {name: "f\u006fo", items: [{key: a}, {key: b, path: c}], as: {mode: 0400, format: yaml, path: p}}}]`,
			want: "- configMap: {name: foo-0123456789, items: [{key: a, path: a}, {key: b, path: c}], " +
				"as: {path: p, format: yaml, mode: 0400}}\n",
		},
		"one source for two kinds": {
			in:   "- configMap: {name: \"f\\x6fo\"}\n- secret: {name: foo}\n- {}\n",
			want: "- configMap: {name: foo-0123456789}\n- secret: {name: foo-9876543210}\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pointed, err := point(t, long(tc.in), copies())
			if err != nil {
				t.Fatalf("Point: %v", err)
			}
			if diff := cmp.Diff(long(tc.want), pointed); diff != "" {
				t.Errorf("Point (-want +got):\n%s", diff)
			}
		})
	}
}

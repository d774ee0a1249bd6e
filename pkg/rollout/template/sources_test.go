package template_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPointKeepsWhatPeopleWrote has the long form as people write it: only the names change, and pointing back gives the
// very text again. In these texts, names that change have an @ before them if they are a ConfigMap's, or a $ if a Secret's.
func TestPointKeepsWhatPeopleWrote(t *testing.T) {
	t.Parallel()
	marked := regexp.MustCompile(`[@$]\w+`)
	for name, text := range map[string]string{
		"lines, with comments":    "# foo first\n- configMap: # foo\n    # foo\n    name: @foo   # foo\n    optional: true\n\n- secret:\n    name: $tls\n",
		"JSON":                    `[{"configMap":{"name":"@foo","items":[{"key":"foo","path":"foo"}]}}, {"secret" : {"name" : "$foo"}}]`,
		"both kinds of quotes":    `[{configMap: {name: '@foo'}}, {configMap: {name: "@foo"}}, {configMap: {'name': @foo}}]`,
		"the name after the rest": "- configMap: {items: [{key: name, path: foo}], namespace: default, name: @foo}",
		"other namespaces and entries that name nothing": "[{}, {configMap: {name: foo, namespace: foo}}, {configMap: , secret: {name: $foo}}, null, {secret: ~}, {configMap: {name: @foo}}]",
		"names like the fields":                          "[{configMap: {name: @name}}, {secret: {name: secret}}]",
		"Windows' line ends":                             "# a\r\n- configMap:\r\n    name: @foo\r\n- secret:\r\n    name: '$tls'\r\n",
		"the line ends of YAML 1.1":                      "# a\r- configMap: {name: @foo}\u0085- secret: {name: $tls}\u2028# b\u2029- secret: {name: $tls}",
		"a byte-order mark":                              "\ufeff[{configMap: {name: @foo}}]",
		"the marks of a document":                        "%YAML 1.1\n--- # foo\n- configMap: {name: @foo}\n...\n# foo\n",
		"a document in its first line":                   "--- [{configMap: {name: @foo}}]",
		"tabs":                                           "[\t{configMap:\t{name:\t@foo\t}}\t]\t# foo",
		"brackets over several lines":                    "[\n  {configMap:\n    {\n\tname:\n  @foo\n\n,optional: true}},\n]\n",
		"no blanks at all":                               `[configMap: {name: @foo},{"configMap":{"name":@foo}}]`,
		"characters of several bytes before the name":    "- configMap: {items: [{key: é, path: 日本/😀}], name: @foo} # ü\n- secret: {items: [{key: 'ß', path: ß}], name: '$tls'}",
		"one file of all keys": "- configMap:\n    as: {path: foo, format: dotenv}\n    items: [{key: foo}]\n    name: @foo\n" +
			"- secret: {name: $tls, as: {format: json, path: name, mode: 0400}}\n",
		"objects that are selected by label": "- configMap: {labelSelector: {matchLabels: {name: foo}}, namespaces: [foo]}\n- configMap: {name: @foo}\n" +
			"- secret:\n    labelSelector: {matchExpressions: [{key: name, operator: Exists}]}\n- secret: {name: $tls}\n",
		"a name in a separate line": "- configMap:\n    name: # foo\n      # foo\n      @foo\n- ? secret\n  : ? name\n    : $tls\n",
		"a name in a block":         "- configMap:\n    name: |- # foo\n      @foo\n- secret:\n    name: >2-  \n      $tls\n",
		"tags":                      `[{configMap: !!map {!!str name: !!str @foo}}, {configMap: {name: ! "@foo"}}, {configMap: {name: !<tag:yaml.org,2002:str> @foo}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := marked.ReplaceAllStringFunc(text, func(name string) string { return name[1:] })
			want := marked.ReplaceAllStringFunc(text, func(name string) string {
				if name[0] == '$' {
					return copies()[secret(name[1:])]
				}
				return copies()[configMap(name[1:])]
			})
			pointThereAndBack(t, in, want)
		})
	}
}

// TestPointKeepsNamesText: the tag of a name changes where YAML would take the new name, or the old one, for a number.
func TestPointKeepsNamesText(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"a name that would be a number": {
			"[{configMap: {name: 1e}}, {configMap: {name: '1e'}}]",
			"[{configMap: {name: !!str 1e-0123456789}}, {configMap: {name: '1e-0123456789'}}]",
		},
		"a name that is not a number by its tag": {
			"[{configMap: {name: ! 2}}, {configMap: {name: !!str '1e'}}]",
			"[{configMap: {name: ! 2-0123456789}}, {configMap: {name: !!str '1e-0123456789'}}]",
		},
		"a name that would be another number": {
			"[{configMap: {name: !!str 3}}]",
			"[{configMap: {name: !!str 4e5}}]",
		},
		"a name that would be a number no longer": {
			`[{configMap: {name: !!str 2}}, {configMap: {name: "2"}}]`,
			`[{configMap: {name: 2-0123456789}}, {configMap: {name: "2-0123456789"}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pointThereAndBack(t, tc.in, tc.want)
		})
	}
}

func pointThereAndBack(t *testing.T, in, want string) {
	t.Helper()
	_, pointed, err := point(t, long(in), copies())
	if err != nil {
		t.Fatalf("Point: %v", err)
	}
	if diff := cmp.Diff(long(want), pointed); diff != "" {
		t.Errorf("Point (-want +got):\n%s", diff)
	}
	_, back, err := point(t, pointed, swapped(copies()))
	if diff := cmp.Diff(long(in), back); diff != "" || err != nil {
		t.Errorf("after pointing back: error %v (-want +got):\n%s", err, diff)
	}
}

// TestPointWritesAgain has texts in which a name cannot be changed where it stands.
func TestPointWritesAgain(t *testing.T) {
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

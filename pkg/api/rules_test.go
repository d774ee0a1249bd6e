package api_test

import (
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

func TestParseOddButLegal(t *testing.T) {
	t.Parallel()
	testGood(t, map[string]good{
		"rule 6: numbers that only YAML 1.1 reads like this": goodItems(
			`[{key: a, path: a, mode: 1_0}, {key: b, path: b, mode: 4e2}]`, itemMode("a", "a", 0o012), itemMode("b", "b", 0o620)),
		"rule 4: the long form has the same default mode": goodSources(
			`[{secret: {name: tls}}]`, source(api.Secret, "default", "tls")),
		"rule 19: a source that names no namespace is of the pod's": {
			in:   attributes{"sources": `[{secret: {name: a}}, {configMap: {name: b, namespace: c}}]`},
			want: spec(source(api.Secret, "default", "a"), source(api.ConfigMap, "c", "b")),
		},
		"rule 14: a file and a directory of an optional source": {
			in: attributes{"configMap": "app", "optional": "true", "items": `[{key: a, path: foo}, {key: b, path: foo/bar}]`},
			want: spec(optional(source(api.ConfigMap, "default", "app",
				item("a", "foo"), item("b", "foo/bar")))),
		},
		"rule 14: one of the two is optional, and says so at the end": {
			in: attributes{"sources": `[{secret: {name: a, items: [{key: k, path: x/y/z}], optional: true}}, ` +
				`{configMap: {name: b, items: [{key: l, path: x}]}}]`},
			want: spec(optional(source(api.Secret, "default", "a", item("k", "x/y/z"))),
				source(api.ConfigMap, "default", "b", item("l", "x"))),
		},
		"rule 24: an element of 127 characters in 254 bytes": goodItems(
			`[{key: a, path: `+strings.Repeat("é", 127)+`}]`, item("a", strings.Repeat("é", 127))),
		"rule 26: what trap 8 calls legal": goodItems(
			`[{key: a, path: a/..b}, {key: b, path: p..}, {key: c, path: b/..data_tmp}, {key: d, path: ./c}]`,
			item("a", "a/..b"), item("b", "p.."), item("c", "b/..data_tmp"), item("d", "c")),
	})
}

// TestParseRefusesEveryModeThatIsNone goes through the range of rule 5 in both places that hold a mode (trap 11).
func TestParseRefusesEveryModeThatIsNone(t *testing.T) {
	t.Parallel()
	const inItem, inVolume = "items[0].mode: Invalid value: ", "defaultMode: Invalid value: "
	testMistakes(t, map[string]bad{
		"rule 5: one more than the largest, octal": badItems(
			`[{key: a, path: a, mode: 01000}]`,
			inItem+`512: must be from 0 to 0777 (octal), 512 is decimal: for octal 512 write 0512`),
		"rule 5: every special bit": badItems(
			`[{key: a, path: a, mode: 07777}]`, inItem+`4095: must be from 0 to 0777 (octal)`),
		"rule 5: a default mode of one more than the largest": {
			in:   with(attributes{"defaultMode": "1000"}),
			want: inVolume + `"1000": must be an octal number from 0000 to 0777`,
		},
		"rule 5: a default mode with every special bit": {
			in:   with(attributes{"defaultMode": "0o7777"}),
			want: inVolume + `"0o7777": must be an octal number from 0000 to 0777`,
		},
		"rule 6: a number that is not a number in YAML": badItems(
			`[{key: a, path: a, mode: 0o888}]`,
			inItem+`"0o888": must be a number, not a string: write 0644, for example`),
	})
}

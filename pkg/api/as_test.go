package api_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// as is a source of the pod's namespace that has one file of all its keys.
func as(name, path string, format api.Format, items ...api.Item) api.Source {
	src := source(api.ConfigMap, "default", name, items...)
	src.As = &api.As{Path: path, Format: format}
	return src
}

func TestParseAs(t *testing.T) {
	t.Parallel()
	withMode := as("app", "app.env", api.FormatDotenv)
	withMode.As.Mode = new(fs.FileMode(0))
	ofAnother := as("app", "a", api.FormatYAML)
	ofAnother.Ref = api.Ref{Kind: api.Secret, Namespace: "shared", Name: "app"}
	testGood(t, map[string]good{
		"each format": goodSources(`
- configMap: {name: a, as: {path: app.env, format: dotenv}}
- configMap: {name: b, as: {path: app.json, format: json}}
- configMap: {name: c, as: {path: app.yaml, format: yaml}}
- configMap: {name: d, as: {path: app.properties, format: properties}}
`, as("a", "app.env", api.FormatDotenv), as("b", "app.json", api.FormatJSON), as("c", "app.yaml", api.FormatYAML),
			as("d", "app.properties", api.FormatProperties)),
		"JSON": goodSources(`[{"configMap":{"name":"app","as":{"path":"app.env","format":"dotenv","mode":0}}}]`, withMode),
		"an optional Secret of another namespace": goodSources(
			`[{secret: {as: {path: a, format: yaml}, optional: true, namespace: shared, name: app}}]`, optional(ofAnother)),
		"the path is cleaned": goodSources(`[{configMap: {name: app, as: {path: ./conf//app.env, format: dotenv}}}]`,
			as("app", "conf/app.env", api.FormatDotenv)),
		"the extension says nothing": goodSources(`[{configMap: {name: app, as: {path: app.json, format: dotenv}}}]`,
			as("app", "app.json", api.FormatDotenv)),
		"items name keys": goodSources(
			`[{configMap: {name: app, items: [{key: log.level, path: LOG_LEVEL}, {key: COLOR}, {key: A, path: ~}], as: {path: e, format: dotenv}}}]`,
			as("app", "e", api.FormatDotenv, item("log.level", "LOG_LEVEL"), item("COLOR", "COLOR"), item("A", "A"))),
		"the longest name": goodSources(
			"[{configMap: {name: app, as: {path: e, format: json}, items: [{key: a, path: "+strings.Repeat("b", 253)+"}]}}]",
			as("app", "e", api.FormatJSON, item("a", strings.Repeat("b", 253)))),
		"one key under two names": goodSources(
			`[{configMap: {name: app, as: {path: e, format: json}, items: [{key: a}, {key: a, path: b}]}}]`,
			as("app", "e", api.FormatJSON, item("a", "a"), item("a", "b"))),
		"what only dotenv cannot hold": goodSources(
			`[{configMap: {name: app, as: {path: e, format: json}, items: [{key: tls.key}, {key: b, path: "größe: #1"}, {key: c, path: ..}]}}]`,
			as("app", "e", api.FormatJSON, item("tls.key", "tls.key"), item("b", "größe: #1"), item("c", ".."))),
		"names of two files are nothing to each other": goodSources(
			`[{configMap: {name: a, as: {path: a, format: json}, items: [{key: k}]}}, {configMap: {name: b, as: {path: b, format: json}, items: [{key: k}]}}]`,
			as("a", "a", api.FormatJSON, item("k", "k")), as("b", "b", api.FormatJSON, item("k", "k"))),
		"an empty list of items is every key": goodSources(
			`[{configMap: {name: app, items: [], as: {path: e, format: dotenv}}}]`, as("app", "e", api.FormatDotenv)),
		"null counts as absent": goodSources(`[{configMap: {name: app, as: ~, items: [{key: a, path: b/c}]}}]`,
			source(api.ConfigMap, "default", "app", item("a", "b/c"))),
	})
}

func TestParseMistakesInAs(t *testing.T) {
	t.Parallel()
	const at = "sources[0].configMap.as"
	// in is a source with as, and with items if there are any.
	in := func(as, items, want string) bad {
		return badSources("[{configMap: {name: app, items: ["+items+"], as: "+as+"}}]", want)
	}
	const dotenv, json = "{path: e, format: dotenv}", "{path: e, format: json}"
	const item = "sources[0].configMap.items[0]"
	const variable = `must be a variable's name in dotenv: letters, digits and "_", no digit first`
	testMistakes(t, map[string]bad{
		"a path alone": in("app.env", "", at+`: Invalid value: "app.env": must be an object, not a string: write {path: app.env, format: dotenv}`),
		"nothing": in("{}", "", at+".path: Required value: write where in the volume the file goes; "+
			at+".format: Required value: write dotenv, json, yaml or properties"),
		"no format": in("{path: conf/app.YML}", "", at+".format: Required value: write dotenv, json, yaml or properties, the path looks like yaml"),
		"an unknown format": in("{path: a, format: YAML}", "",
			at+`.format: Unsupported value: "YAML": supported values: "dotenv", "json", "yaml", "properties", did you mean "yaml"?`),
		"a format that is not text":          in("{path: a, format: 5}", "", at+".format: Invalid value: 5: must be a string, not a number: put it in quotes"),
		"a mode as everywhere":               in(`{path: a, format: json, mode: "0400"}`, "", at+`.mode: Invalid value: "0400": must be a number, not a string: drop the quotes`),
		"a path as everywhere":               in("{path: ..data, format: json}", "", at+`.path: Invalid value: "..data": must not start with "..", such names are reserved`),
		"a path that leads elsewhere":        in("{path: a/../../b, format: json}", "", at+`.path: Invalid value: "a/../../b": must not contain the element ".."`),
		"a path of too many elements":        in("{path: "+strings.Repeat("a/", 64)+"f, format: json}", "", at+`.path: Invalid value: "`+strings.Repeat("a/", 28)+`a…": must have at most 64 elements, not 65`),
		"an unknown field":                   in("{file: a, format: json}", "", at+".file: Forbidden: unknown field, known are path, format, mode; "+at+".path: Required value: write where in the volume the file goes"),
		"a field with a slip":                in("{Path: a, fromat: json}", "", at+`.Path: Forbidden: unknown field, did you mean "path"?; `+at+`.fromat: Forbidden: unknown field, did you mean "format"?`),
		"a field of the source":              in("{path: a, format: json, items: []}", "", at+".items: Forbidden: goes beside as, not into it"),
		"a field of the volume":              in("{path: a, format: json, uid: 5}", "", at+".uid: Forbidden: belongs to the whole volume, make it an attribute beside sources"),
		"an item with a mode":                in(json, "{key: a, mode: 0400}", item+".mode: Forbidden: there is one file for all keys, write its mode inside as"),
		"an item without a key":              in(json, "{path: a}", item+".key: Required value: write which key to put into the file"),
		"an item with an empty name":         in(json, "{key: a, path: ''}", item+".path: Required value: must not be empty, write the name in the file, or leave it out for the key's own"),
		"a name with a slash":                in(json, "{key: a, path: b/c}", item+`.path: Invalid value: "b/c": must not contain a slash: beside as it is a name in the file, and not a path`),
		"a name with a line break":           in(json, `{key: a, path: "b\nc"}`, item+`.path: Invalid value: "b\nc": must not contain control characters`),
		"a name that is too long":            in(json, "{key: a, path: "+strings.Repeat("a", 254)+"}", item+`.path: Invalid value: "`+strings.Repeat("a", 57)+`…": must have at most 253 bytes`),
		"a name that a variable cannot have": in(dotenv, "{key: a, path: 2nd}", item+`.path: Invalid value: "2nd": `+variable),
		"a key that a variable cannot have":  in(dotenv, "{key: log.level}", item+`.key: Invalid value: "log.level": `+variable+"; write as path which name the key has in the file"),
		"one name twice": in(json, "{key: a}, {key: b, path: a}, {key: a}",
			`sources[0].configMap.items[1].path: Duplicate value: "a": sources[0].configMap.items[0].key makes the same name in the file, change one; `+
				`sources[0].configMap.items[2].key: Duplicate value: "a": sources[0].configMap.items[0].key makes the same name in the file, change one`),
		"items that are not lists": badSources("[{configMap: {name: app, as: "+json+", items: COLOR}}]",
			`sources[0].configMap.items: Invalid value: "COLOR": must be a list, not a string: write [{key: color}, {key: log.level, path: LOG_LEVEL}]`),
		"one file twice": badSources("[{configMap: {name: a, as: "+json+"}}, {secret: {name: b, as: {path: ./e, format: yaml}}}]",
			`sources[1].secret.as.path: Duplicate value: "./e": sources[0].configMap.as.path ("e") means the same file, change one`),
		"a file and a file of a key": badSources("[{secret: {name: b, items: [{key: a, path: e/f}]}}, {configMap: {name: a, as: "+json+"}}]",
			`sources[1].configMap.as.path: Invalid value: "e": cannot be a file, sources[0].secret.items[0].path ("e/f") needs it as a directory`),
		"beside the source": badSources("[{configMap: {name: a}, as: "+json+"}]", "sources[0].as: Forbidden: goes inside configMap or secret"),
		"in an item":        badSources("[{configMap: {name: a, items: [{key: a, path: b, as: "+json+"}]}}]", "sources[0].configMap.items[0].as: Forbidden: unknown field, known are key, path, mode, user, expand"),
		"in the short form": {in: with(attributes{"as": dotenv}), want: "as: Forbidden: goes inside configMap or secret of an entry of sources, which is the long form"},
		"twice": badSources("[{configMap: {name: a, as: "+json+", as: "+dotenv+"}}]",
			`sources[0].configMap.as: Duplicate value: "as": the field is given more than once, keep one`),
	})
}

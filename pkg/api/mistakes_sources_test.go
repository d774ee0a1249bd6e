package api_test

import "testing"

func TestParseMistakesInSources(t *testing.T) {
	t.Parallel()
	const required = `sources: Required value: must be a list such as [{configMap: {name: app}}, {secret: {name: tls}}], ` +
		`or [] for an empty volume`
	testMistakes(t, map[string]bad{
		"no text":                    badSources("", required),
		"a blank text":               badSources(" \n\t", required),
		"a text that is all comment": badSources("# nothing yet\n", required),
		"null":                       badSources("null", required),
		"one object instead of a list": badSources(`configMap: {name: app}`,
			`sources: Invalid value: must be a list, not an object: write [{configMap: {name: app}}, {secret: {name: tls}}]`),
		"a text instead of a list": badSources(`app`,
			`sources: Invalid value: "app": must be a list, not a string: write [{configMap: {name: app}}, {secret: {name: tls}}]`),
		"a name instead of an entry": badSources(`[app]`,
			`sources[0]: Invalid value: "app": must be an object, not a string: write {configMap: {name: app}}`),
		"a name instead of a source": badSources(`[configMap: app]`,
			`sources[0].configMap: Invalid value: "app": must be an object, not a string: write {name: app}`),
		"a list instead of a source": badSources(`[{secret: [tls]}]`,
			`sources[0].secret: Invalid value: must be an object, not a list: write {name: app}`),
		"a number instead of a source": badSources(`[{secret: 5}]`,
			`sources[0].secret: Invalid value: 5: must be an object, not a number: write {name: app}`),
		"rule 15: two kinds in one entry": badSources(`[{configMap: {name: app}, secret: {name: tls}}]`,
			`sources[0].secret: Forbidden: the entry already names another source, write a separate entry for this one`),
		"rule 15: an empty name, even when optional": badSources(
			`[{configMap: {name: "", optional: true}}, {secret: {optional: true}}, {secret: {name: null}}]`,
			`sources[0].configMap.name: Required value: must not be empty, write the name of the object; `+
				`sources[1].secret.name: Required value: write the name of the Secret; `+
				`sources[2].secret.name: Required value: write the name of the Secret`,
		),
		"a source without anything": badSources(`[{configMap: {}}]`,
			`sources[0].configMap.name: Required value: write the name of the ConfigMap`),
		"rule 55: the kinds that are not served": badSources(`
- downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
- serviceAccountToken: {path: token}
- clusterTrustBundle: {name: ca, path: ca.pem}
- podCertificate: {signerName: x}
`,
			"sources[0].downwardAPI: Forbidden: not served by this driver, use a `projected` volume for it; "+
				"sources[1].serviceAccountToken: Forbidden: not served by this driver, use a `projected` volume for it; "+
				"sources[2].clusterTrustBundle: Forbidden: not served by this driver, use a `projected` volume for it; "+
				"sources[3].podCertificate: Forbidden: not served by this driver, use a `projected` volume for it",
		),
		"a kind in the wrong case": badSources(
			`[{configmap: {name: app}}, {Secret: {name: tls}}]`,
			`sources[0].configmap: Forbidden: unknown field, did you mean "configMap"?; `+
				`sources[1].Secret: Forbidden: unknown field, did you mean "secret"?`,
		),
		"a kind that does not exist": badSources(`[{file: {name: app}}]`,
			`sources[0].file: Forbidden: unknown field, known are configMap, secret`),
		"the fields of a source one level too high": badSources(
			`[{name: app, namespace: shared, items: [], optional: true, configMap: {name: app}}]`,
			`sources[0].name: Forbidden: goes inside configMap or secret; `+
				`sources[0].namespace: Forbidden: goes inside configMap or secret; `+
				`sources[0].items: Forbidden: goes inside configMap or secret; `+
				`sources[0].optional: Forbidden: goes inside configMap or secret`,
		),
		"the fields of core/v1 volumes": badSources(
			`[{secret: {secretName: tls, defaultMode: 0400}}, {configMap: {name: app, uid: 5}}]`,
			`sources[0].secret.secretName: Forbidden: unknown field, did you mean "name"?; `+
				`sources[0].secret.defaultMode: Forbidden: belongs to the whole volume, make it an attribute beside sources; `+
				`sources[1].configMap.uid: Forbidden: belongs to the whole volume, make it an attribute beside sources`,
		),
		"a field in the wrong case is not missing as well": badSources(`[{secret: {Name: tls}}]`,
			`sources[0].secret.Name: Forbidden: unknown field, did you mean "name"?`),
		"a field that is nothing like a known one": badSources(`[{secret: {name: tls, watch: true}}]`,
			`sources[0].secret.watch: Forbidden: unknown field, known are name, namespace, items, optional, as, expand`),
		"a field given twice": badSources(
			`[{secret: {name: a, name: b}}, {secret: {name: a}, secret: {name: b}}]`,
			`sources[0].secret.name: Duplicate value: "name": the field is given more than once, keep one; `+
				`sources[1].secret: Duplicate value: "secret": the field is given more than once, keep one`,
		),
		"a field name that is not a string": badSources(
			`[{secret: {name: a, 5: b, yes: c, ~: d}}]`,
			`sources[0].secret.5: Invalid value: 5: must be the name of a field, not a number: put it in quotes; `+
				`sources[0].secret.true: Invalid value: true: must be the name of a field, not a boolean: put it in quotes; `+
				`sources[0].secret.null: Invalid value: must be the name of a field, not null: put it in quotes`,
		),
		"a field name that is an object": badSources(`[{secret: {name: a, ? {b: c} : d}}]`,
			`sources[0].secret."[{b c}]": Invalid value: must be the name of a field, not an object: write a text in quotes`),
		"rule 6: names that YAML does not read as strings": badSources(
			`[{secret: {name: 123}}, {secret: {name: yes}}, {secret: {name: 1.5}}, {secret: {name: [a]}}]`,
			`sources[0].secret.name: Invalid value: 123: must be a string, not a number: put it in quotes; `+
				`sources[1].secret.name: Invalid value: true: must be a string, not a boolean: put it in quotes; `+
				`sources[2].secret.name: Invalid value: 1.5: must be a string, not a number: put it in quotes; `+
				`sources[3].secret.name: Invalid value: must be a string, not a list: write a text in quotes`,
		),
		"a bad name and a bad namespace": badSources(
			`[{}, {secret: {name: TLS, namespace: a.b}}]`,
			`sources[1].secret.name: Invalid value: "TLS": must be an object name: up to 253 of a-z, 0-9, "-" and ".", `+
				`first and last a letter or digit; `+
				`sources[1].secret.namespace: Invalid value: "a.b": must be a namespace: up to 63 of a-z, 0-9 and "-", `+
				`first and last a letter or digit, or leave it out for the pod's own`,
		),
		"an empty namespace": badSources(
			`[{secret: {name: tls, namespace: ""}}]`,
			`sources[0].secret.namespace: Invalid value: "": must be a namespace: up to 63 of a-z, 0-9 and "-", `+
				`first and last a letter or digit, or leave it out for the pod's own`,
		),
		"a namespace that is not a string": badSources(`[{secret: {name: tls, namespace: 7}}]`,
			`sources[0].secret.namespace: Invalid value: 7: must be a string, not a number: put it in quotes`),
		"optional as a string": badSources(`[{secret: {name: tls, optional: "true"}}]`,
			`sources[0].secret.optional: Invalid value: "true": must be a boolean, not a string: drop the quotes`),
		"optional as a word": badSources(`[{secret: {name: tls, optional: maybe}}]`,
			`sources[0].secret.optional: Invalid value: "maybe": must be a boolean, not a string: write true or false`),
		"optional as a number and a list": badSources(
			`[{secret: {name: a, optional: 1}}, {secret: {name: b, optional: [true]}}]`,
			`sources[0].secret.optional: Invalid value: 1: must be a boolean, not a number: write true or false; `+
				`sources[1].secret.optional: Invalid value: must be a boolean, not a list: write true or false`,
		),
		"items that are not lists": badSources(`[{secret: {name: tls, items: {key: a, path: a}}}]`,
			`sources[0].secret.items: Invalid value: must be a list, not an object: write [{key: app.conf, path: etc/app.conf}]`),
		"trap 9: a path twice in one entry": badSources(`[{secret: {name: a, items: [{key: k, path: x}, {key: l, path: x}]}}]`,
			`sources[0].secret.items[1].path: Duplicate value: "x": sources[0].secret.items[0].path has the same path, change one`),
		"rule 13: a path twice across entries": badSources(`[{configMap: {name: a, items: [{key: k, path: x/y}]}}, {secret: {name: b, items: [{key: l, path: x/y}]}}]`,
			`sources[1].secret.items[0].path: Duplicate value: "x/y": sources[0].configMap.items[0].path has the same path, change one`),
		"rule 13: a path twice in two spellings": badSources(`[{configMap: {name: a, items: [{key: k, path: x//y}]}}, {secret: {name: b, items: [{key: l, path: ./x/y}]}}]`,
			`sources[1].secret.items[0].path: Duplicate value: "./x/y": sources[0].configMap.items[0].path ("x//y") means the same file, change one`),
		"rule 14: a file where another entry needs a directory": badSources(`[{configMap: {name: a, items: [{key: k, path: x}]}}, {secret: {name: b, items: [{key: l, path: x/y/z}]}}]`,
			`sources[1].secret.items[0].path: Invalid value: "x/y/z": needs a directory where sources[0].configMap.items[0].path ("x") makes a file`),
		"rule 14: an optional file between does not hide two required ones": badSources(
			`[{configMap: {name: a, optional: true, items: [{key: k, path: x/y}]}}, {secret: {name: b, items: [{key: l, path: x/z/u}]}}, `+
				`{secret: {name: c, items: [{key: l, path: x}]}}]`,
			`sources[2].secret.items[0].path: Invalid value: "x": `+
				`cannot be a file, sources[1].secret.items[0].path ("x/z/u") needs it as a directory`,
		),
		"rule 14: a source that says that it is not optional": badSources(
			`[{configMap: {name: a, optional: false, items: [{key: k, path: x}, {key: l, path: x/y}]}}]`,
			`sources[0].configMap.items[1].path: Invalid value: "x/y": `+
				`needs a directory where sources[0].configMap.items[0].path ("x") makes a file`,
		),
		"rule 13: a path twice, of which one is optional": badSources(`[{configMap: {name: a, optional: true, items: [{key: k, path: x}]}}, {secret: {name: b, items: [{key: l, path: x}]}}]`,
			`sources[1].secret.items[0].path: Duplicate value: "x": sources[0].configMap.items[0].path has the same path, change one`),
	})
}

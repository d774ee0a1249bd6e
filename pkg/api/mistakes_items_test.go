package api_test

import (
	"strings"
	"testing"
)

func TestParseMistakesInItems(t *testing.T) {
	t.Parallel()
	testMistakes(t, map[string]bad{
		"one object instead of a list": badItems(`key: a`,
			`items: Invalid value: must be a list, not an object: write [{key: app.conf, path: etc/app.conf}]`),
		"keys instead of items": badItems(
			`[redis.conf, 5]`,
			`items[0]: Invalid value: "redis.conf": must be an object, not a string: write {key: app.conf, path: etc/app.conf}; `+
				`items[1]: Invalid value: 5: must be an object, not a number: write {key: app.conf, path: etc/app.conf}`,
		),
		"rule 20: nothing in an item": badItems(
			`[{}, ~]`,
			`items[0].key: Required value: write which key to project; `+
				`items[0].path: Required value: write where in the volume the file goes; `+
				`items[1].key: Required value: write which key to project; `+
				`items[1].path: Required value: write where in the volume the file goes`,
		),
		"rule 20: an empty key and path": badItems(
			`[{key: "", path: ""}]`,
			`items[0].key: Required value: must not be empty, write which key to project; `+
				`items[0].path: Required value: must not be empty, write where in the volume the file goes`,
		),
		"null is not a key or a path": badItems(
			`[{key: ~, path: null}]`,
			`items[0].key: Required value: write which key to project; `+
				`items[0].path: Required value: write where in the volume the file goes`,
		),
		"rule 6: a key that is a number": badItems(`[{key: 8080, path: port}]`,
			`items[0].key: Invalid value: 8080: must be a string, not a number: put it in quotes`),
		"rule 6: a key that is a boolean": badItems(
			`[{key: y, path: on}]`,
			`items[0].key: Invalid value: true: must be a string, not a boolean: put it in quotes; `+
				`items[0].path: Invalid value: true: must be a string, not a boolean: put it in quotes`,
		),
		"an unknown and a repeated field": badItems(
			`[{key: a, path: a, modes: 0644, keys: b, owner: 5, path: b}]`,
			`items[0].modes: Forbidden: unknown field, did you mean "mode"?; `+
				`items[0].keys: Forbidden: unknown field, did you mean "key"?; `+
				`items[0].owner: Forbidden: unknown field, known are key, path, mode, user, expand; `+
				`items[0].path: Duplicate value: "path": the field is given more than once, keep one`,
		),
		"the mode of the whole volume": badItems(`[{key: a, path: a, defaultMode: 0644}]`,
			`items[0].defaultMode: Forbidden: unknown field, did you mean "mode"?`),
		"a field name with line breaks": badItems(`[{key: a, path: a, "x\ny": 1}]`,
			`items[0]."x\ny": Forbidden: unknown field, known are key, path, mode, user, expand`),
		"rule 6: a mode written in decimal digits that look octal": badItems(`[{key: a, path: a, mode: 644}]`,
			`items[0].mode: Invalid value: 644: must be from 0 to 0777 (octal), 644 is decimal: for octal 644 write 0644`),
		"rule 6: a mode that is a string": badItems(
			`[{key: a, path: a, mode: "0644"}, {key: b, path: b, mode: rw-r--r--}, {key: c, path: c, mode: 0o888}]`,
			`items[0].mode: Invalid value: "0644": must be a number, not a string: drop the quotes; `+
				`items[1].mode: Invalid value: "rw-r--r--": must be a number, not a string: write 0644, for example; `+
				`items[2].mode: Invalid value: "0o888": must be a number, not a string: write 0644, for example`,
		),
		"users that are not valid": badItems(
			`[{key: a, path: a, user: "999"}, {key: b, path: b, user: nginx}, {key: c, path: c, user: -1}, {key: d, path: d, user: 2147483648}]`,
			`items[0].user: Invalid value: "999": must be a number, not a string: drop the quotes; `+
				`items[1].user: Invalid value: "nginx": must be a number, not a string: write 999, for example; `+
				`items[2].user: Invalid value: -1: must be a whole number from 0 to 2147483647; `+
				`items[3].user: Invalid value: 2147483648: must be a whole number from 0 to 2147483647`,
		),
		"the user of the whole volume": badItems(`[{key: a, path: a, defaultUser: 999}]`,
			`items[0].defaultUser: Forbidden: unknown field, did you mean "user"?`),
		"rule 5: modes out of range": badItems(
			`[{key: a, path: a, mode: 01777}, {key: b, path: b, mode: -1}, {key: c, path: c, mode: 4755}, {key: d, path: d, mode: 01000}, `+
				`{key: e, path: e, mode: 07777}]`,
			`items[0].mode: Invalid value: 1023: must be from 0 to 0777 (octal); `+
				`items[1].mode: Invalid value: -1: must be from 0 to 0777 (octal); `+
				`items[2].mode: Invalid value: 4755: must be from 0 to 0777 (octal); `+
				`items[3].mode: Invalid value: 512: must be from 0 to 0777 (octal), 512 is decimal: for octal 512 write 0512; `+
				`items[4].mode: Invalid value: 4095: must be from 0 to 0777 (octal)`,
		),
		"rule 6: a mode that is octal only to the eye": badItems(`[{key: a, path: a, mode: 0888}]`,
			`items[0].mode: Invalid value: 888: must be from 0 to 0777 (octal)`),
		"rule 6: a mode that is not whole": badItems(
			`[{key: a, path: a, mode: 420.5}, {key: b, path: b, mode: .nan}]`,
			`items[0].mode: Invalid value: 420.5: must be a whole number from 0 to 0777 (octal); `+
				`items[1].mode: Invalid value: NaN: must be a whole number from 0 to 0777 (octal)`,
		),
		"modes far out of range": badItems(
			`[{key: a, path: a, mode: 4294967716}, {key: b, path: b, mode: 18446744073709551615}, {key: c, path: c, mode: -.inf}]`,
			`items[0].mode: Invalid value: 4294967716: must be from 0 to 0777 (octal); `+
				`items[1].mode: Invalid value: 18446744073709551615: must be from 0 to 0777 (octal); `+
				`items[2].mode: Invalid value: -Inf: must be from 0 to 0777 (octal)`,
		),
		"a mode that is a boolean, a list, an object": badItems(
			`[{key: a, path: a, mode: no}, {key: b, path: b, mode: [0644]}, {key: c, path: c, mode: {u: rw}}]`,
			`items[0].mode: Invalid value: false: must be a number, not a boolean: write 0644, for example; `+
				`items[1].mode: Invalid value: must be a number, not a list: write 0644, for example; `+
				`items[2].mode: Invalid value: must be a number, not an object: write 0644, for example`,
		),
		"text after a JSON list": badItems(
			"[{\"key\":\"a\",\"path\":\"a\"}]\nbogus: 1",
			`items: Invalid value: "[{\"key\":\"a\",\"path\":\"a\"}]\nbogus: 1": must be YAML or JSON: `+
				`more text follows where the value has ended, look for a bracket that closes too early`,
		),
		"a second document": badItems(
			"- {key: a, path: a}\n---\n- {key: b, path: b}\n",
			`items: Invalid value: "- {key: a, path: a}\n---\n- {key: b, path: b}\n": must be YAML or JSON: `+
				`a second document follows (---), only one is read`,
		),
		"a second document, empty": badItems("- {key: a, path: a}\n---\n",
			`items: Invalid value: "- {key: a, path: a}\n---\n": must be YAML or JSON: a second document follows (---), only one is read`),
		"text that is not YAML": badItems("- key: a\n  path: [a\n",
			`items: Invalid value: "- key: a\n  path: [a\n": must be YAML or JSON: line 2: did not find expected ',' or ']'`),
		"text with a tab": badItems("- key: a\n\tpath: a\n",
			`items: Invalid value: "- key: a\n\tpath: a\n": must be YAML or JSON: line 2: found a tab character that violates indentation`),
		"an alias without an anchor": badItems("- *a", `items: Invalid value: "- *a": must be YAML or JSON: unknown anchor 'a' referenced`),
		"an anchor and an alias": badItems(
			"- {key: a, path: b}\n- {key: &k a, path: *k}",
			`items: Invalid value: "- {key: a, path: b}\n- {key: &k a, path: *k}": must be YAML or JSON: line 2: `+
				`anchors and aliases (&, *) are not supported, write out what they stand for`,
		),
		"an anchor that nothing refers to": badItems(
			"[{key: a, path: &p b}]",
			`items: Invalid value: "[{key: a, path: &p b}]": must be YAML or JSON: line 1: `+
				`anchors and aliases (&, *) are not supported, write out what they stand for`,
		),
		"an alias within its anchor": badItems("&a [*a]",
			`items: Invalid value: "&a [*a]": must be YAML or JSON: line 1: anchors and aliases (&, *) are not supported, write out what they stand for`),
		"a merge key": badItems(
			"- {<<: {key: a, path: a}, mode: 0400}\n",
			`items: Invalid value: "- {<<: {key: a, path: a}, mode: 0400}\n": must be YAML or JSON: `+
				`merge keys (<<) are not supported, write the fields out`,
		),
		"a merge key that changes a list": badItems("[{key: [z], <<: {key: [x, y]}}]",
			`items: Invalid value: "[{key: [z], <<: {key: [x, y]}}]": must be YAML or JSON: merge keys (<<) are not supported, write the fields out`),
		"a merge of what is not an object": badItems("[{<<: 5}]",
			`items: Invalid value: "[{<<: 5}]": must be YAML or JSON: merge keys (<<) are not supported, write the fields out`),
		"wrong UTF-8": badItems("- {key: a, path: \"\xff\"}",
			`items: Invalid value: "- {key: a, path: \"\xff\"}": must be YAML or JSON: the text is not valid UTF-8`),
		"binary data instead of a text": badItems("- {key: a, path: !!binary /w==}",
			`items[0].path: Invalid value: "\xff": must be valid UTF-8`),
		"a tag that its value does not fit": badItems(
			`[{key: a, path: a, mode: !!int "\e[2J"}]`,
			"items: Invalid value: \"[{key: a, path: a, mode: !!int \\\"\\\\e[2J\\\"}]\": must be YAML or JSON: "+
				"cannot decode !!str `\ufffd[2J` as a !!int",
		),
		"a list that is tagged as null": badItems(`[!!null [a], {key: k, path: p}]`,
			`items[0]: Invalid value: must be an object, not a list: write {key: app.conf, path: etc/app.conf}`),
		"a text that is too long": badItems("# "+strings.Repeat("x", 64<<10), `items: Too long: may not be more than 65536 bytes`),
	})
}

func TestParseMistakesInPaths(t *testing.T) {
	t.Parallel()
	short := func(path, shown, want string) bad {
		return badItems(`[{key: k, path: "`+path+`"}]`, `items[0].path: Invalid value: "`+shown+`": `+want)
	}
	one := func(path, want string) bad { return short(path, path, want) }
	testMistakes(t, map[string]bad{
		"rule 21: absolute":                               one("/etc/passwd", `must be relative to the volume, drop the slash in front`),
		"rule 22: one up":                                 one("..", `must not contain the element ".."`),
		"rule 22: up in front":                            one("../x", `must not contain the element ".."`),
		"rule 22: up in the middle":                       one("a/../b", `must not contain the element ".."`),
		"rule 22: up at the end":                          one("a/..", `must not contain the element ".."`),
		"rule 23: two dots in front":                      one("..x", `must not start with "..", such names are reserved`),
		"rule 23: three dots":                             one("...", `must not start with "..", such names are reserved`),
		"rule 23: the data link":                          one("..data/x", `must not start with "..", such names are reserved`),
		"rule 25: the link of an update after cleaning":   one("./..data_tmp", `must not start with "..", such names are reserved, and it means "..data_tmp"`),
		"rule 25: the data link after cleaning":           one(".//..data", `must not start with "..", such names are reserved, and it means "..data"`),
		"rule 25: two dots deep in cleaned-away elements": one("././/./..x/y", `must not start with "..", such names are reserved, and it means "..x/y"`),
		"rule 25: the volume itself":                      one(".", `must name a file, and it means the volume itself`),
		"rule 25: the volume itself, longer":              one("././", `must name a file, and it means the volume itself`),
		"rule 25: a NUL byte":                             short(`a\0b`, `a\x00b`, `must not contain a NUL byte`),
		"rule 24: an element of 256 bytes": short("a/"+strings.Repeat("x", 256), `a/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`,
			`must have at most 255 bytes between slashes`),
		"rule 24: an element of 128 characters in 256 bytes": short(strings.Repeat("é", 128), `éééééééééééééééééééééééééééé…`,
			`must have at most 255 bytes between slashes`),
		"rule 24: a path of 4097 bytes": short(strings.Repeat("abcdefg/", 512)+"x", `abcdefg/abcdefg/abcdefg/abcdefg/abcdefg/abcdefg/abcdefg/a…`,
			`must have at most 4096 bytes, not 4097`),
		"a path of 65 elements": short(strings.Repeat("d/", 64)+"f", `d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d…`,
			`must have at most 64 elements, not 65`),
		"trap 9: two spellings of one path, in the short form too": badItems(`[{key: a, path: a//b}, {key: b, path: a/b}]`,
			`items[1].path: Duplicate value: "a/b": items[0].path ("a//b") means the same file, change one`),
		"rule 14: a file, then something below it": badItems(`[{key: a, path: foo}, {key: b, path: foo/bar}]`,
			`items[1].path: Invalid value: "foo/bar": needs a directory where items[0].path ("foo") makes a file`),
		"rule 14: something, then a file above it": badItems(`[{key: a, path: foo/bar/baz}, {key: b, path: foo//}]`,
			`items[1].path: Invalid value: "foo//": cannot be a file, items[0].path ("foo/bar/baz") needs it as a directory`),
		"a conflict stands before a later mistake of the same item": badItems(
			`[{key: a, path: foo}, {path: foo/bar, mode: 999, key: ""}]`,
			`items[1].path: Invalid value: "foo/bar": needs a directory where items[0].path ("foo") makes a file; `+
				`items[1].mode: Invalid value: 999: must be from 0 to 0777 (octal); `+
				`items[1].key: Required value: must not be empty, write which key to project`,
		),
	})
}

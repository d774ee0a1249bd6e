package validation_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestNesting: what is nested deeper than anybody writes is refused before a library recurses over it, and brackets in texts
// and comments are no nesting.
func TestNesting(t *testing.T) {
	t.Parallel()
	nested := func(begin, middle, end string, n int) string {
		return strings.Repeat(begin, n) + middle + strings.Repeat(end, n)
	}
	const brackets = 300
	many := strings.Repeat("[", brackets)
	tests := map[string]struct {
		key, text string
		line      int // Of the mistake; 0 for none.
	}{
		"JSON":                          {"a.json", "\n" + nested("[", "1", "]", 101), 2},
		"JSON of 100 levels":            {"a.json", nested(`{"a":`, "1", "}", 100), 0},
		"objects of JSON":               {"a.json", nested("{\"a\":\n", "1", "}", 101), 101},
		"brackets in a text of JSON":    {"a.json", `"\"` + many + `"`, 0},
		"YAML":                          {"a.yaml", "a:\n  " + nested("[", "1", "]", 102), 2},
		"YAML of 100 levels":            {"a.yaml", nested("[", "1", "]", 100), 0},
		"lists of YAML by lines":        {"a.yaml", nested("- ", "1", "", 102), 1},
		"brackets in a text of YAML":    {"a.yaml", "a: |\n  " + many + "\nb: '" + many + "'", 0},
		"YAML through aliases":          {"a.yaml", "a: &a " + nested("[", "1", "]", 60) + "\nb: " + nested("[", "*a", "]", 60), 2},
		"aliases of YAML":               {"a.yaml", bomb(9, 9), 6},
		"aliases that stand for little": {"a.yaml", "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 1}", 0},
		"a YAML value inside itself":    {"a.yaml", "a: &a [*a]", 0},
		"TOML":                          {"a.toml", "a = 1\nb = " + nested("[", "1", "]", 101), 2},
		"TOML of 100 levels":            {"a.toml", "a = " + nested("[", "1", "]", 100), 0},
		"inline tables of TOML":         {"a.toml", "a = " + nested("{a = ", "1", "}", 101), 1},
		"a table of TOML with dots":     {"a.toml", "[" + strings.Repeat("a.", 101) + "a]", 1},
		"a key of TOML with dots":       {"a.toml", strings.Repeat("a.", 101) + "a = 1", 1},
		"brackets in texts of TOML":     {"a.toml", "# " + many + "\na = '" + many + "'\nb = \"\\\"" + many + "\"\nc = \"\"\"\n\\\"\"\"" + many + "\"\"\"\nd = '''\n" + many + "'''\n[" + strings.Repeat("a]\n[", 200) + "b]", -1},
		"many dots of TOML":             {"a.toml", "a = [" + strings.Repeat("1.5, ", 300) + "]", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(check(t, "{key: "+tc.key+"}", false, map[string]string{tc.key: tc.text}), "\n")
			want := fmt.Sprintf("key %s, line %d: is not", tc.key, tc.line)
			isNested := strings.Contains(got, "it is nested deeper than 100 levels") || strings.Contains(got, "its aliases stand for more than 100000 values")
			if isNested != (tc.line > 0) || isNested && !strings.Contains(got, want) {
				t.Errorf("problems = %s, want %s", got, want)
			}
		})
	}
	schema := check(t, "{key: a.json, schemaFrom: {key: s}}", false, map[string]string{"a.json": "{}", "s": nested(`{"not":`, "{}", "}", 101)})
	if len(schema) != 1 || !strings.Contains(schema[0], "key s, line 1: is not a JSON Schema: it is nested deeper") {
		t.Errorf("problems of a schema = %q", schema)
	}
}

// bomb returns YAML in which each list has many aliases of the one before.
func bomb(lists, aliases int) string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range lists {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), aliases))
	}
	return text
}

// TestLinesInJSON: a problem has the line of its value, or of the value around it.
func TestLinesInJSON(t *testing.T) {
	t.Parallel()
	got := check(t, "{key: a.json, schemaFrom: {key: s}}", false, map[string]string{
		"s":      `{"properties": {"a": {"items": {"required": ["x"], "properties": {"n": {"type": "string"}}}}, "b": {"type": "string"}}}`,
		"a.json": "{\n\"c\": {\"a\": [[\n{}, null]]},\n\"a\": [\n{\"x\": 1e400},\n{\n\"x\": [],\n\"n\":\n3}, {}],\n\"b\": null\n}",
	})
	want := []string{"key a.json, line 9: a.1.n", "key a.json, line 9: a.2: missing", "key a.json, line 10: b: "}
	for i := range want {
		if len(got) != len(want) || !strings.Contains(got[i], want[i]) {
			t.Fatalf("problems = %q, want %q", got, want)
		}
	}
}

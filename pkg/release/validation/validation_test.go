package validation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// check returns what is wrong with values by one rule, as it is shown.
func check(t *testing.T, rule string, isSecret bool, data map[string]string) []string {
	t.Helper()
	s, mistakes := settings.Parse("validate: [" + rule + "]")
	if len(mistakes) > 0 {
		t.Fatalf("the rule %s has the mistakes %v", rule, mistakes)
	}
	c := validation.Content{Data: map[string][]byte{}, IsSecret: isSecret, Now: now}
	for key, value := range data {
		c.Data[key] = []byte(value)
	}
	var all []string
	for _, p := range validation.Check(s.Rules, c) {
		all = append(all, p.String())
	}
	return all
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const schema = `{"type": "object", "properties": {"limits": {"properties": {"max": {"maximum": 10}}}}, "required": ["name"]}`
	const formats = `{"properties": {"at": {"format": "ipv4"}, "until": {"format": "date-time"}, "every": {"format": "duration"}}}`
	tests := map[string]struct {
		rule string
		data map[string]string
		want []string // The beginnings of the messages.
	}{
		"a key that is missing": {"{key: a.json}", nil, []string{"validate[0]: key a.json: the key is missing"}},
		"JSON":                  {"{key: a.json}", map[string]string{"a.json": "{}"}, nil},
		"no JSON":               {"{key: a.json}", map[string]string{"a.json": "{\n\n,}"}, []string{"validate[0]: key a.json, line 3: is not json: invalid character"}},
		"two values of JSON":    {"{key: a.json}", map[string]string{"a.json": "{}\n{}"}, []string{"validate[0]: key a.json, line 2: is not json: there is more after the value"}},
		"YAML":                  {"{key: a.yaml}", map[string]string{"a.yaml": "a: 1\n---\nb: 2\n"}, nil},
		"empty YAML":            {"{key: a.yaml}", map[string]string{"a.yaml": ""}, nil},
		"no YAML":               {"{key: a.yaml}", map[string]string{"a.yaml": "a: 1\nb: %"}, []string{"validate[0]: key a.yaml, line 2: is not yaml: "}},
		"a key of YAML twice":   {"{key: a.yaml}", map[string]string{"a.yaml": "a: 1\na: 2"}, []string{`validate[0]: key a.yaml, line 2: is not yaml: mapping key "a" already defined`}},
		"TOML":                  {"{key: a.toml}", map[string]string{"a.toml": "[a]\nb = 1"}, nil},
		"no TOML":               {"{key: a.toml}", map[string]string{"a.toml": "[a]\nb ="}, []string{"validate[0]: key a.toml, line 2: is not toml: "}},
		"properties":            {"{key: a.properties}", map[string]string{"a.properties": "a = ${b}\nb: 2"}, nil},
		"no properties":         {"{key: a.properties}", map[string]string{"a.properties": `a = \u00`}, []string{"validate[0]: key a.properties: is not properties: "}},
		"INI":                   {"{key: a.ini}", map[string]string{"a.ini": "x = 1\n[a]\nb = 1"}, nil},
		"JSON after a mark":     {"{key: a.json}", map[string]string{"a.json": "\ufeff{}"}, nil},
		"no JSON after a mark":  {"{key: a.json}", map[string]string{"a.json": "\ufeff{\n,}"}, []string{"validate[0]: key a.json, line 2: is not json: invalid character"}},
		"two marks":             {"{key: a.json}", map[string]string{"a.json": "\ufeff\ufeff{}"}, []string{"validate[0]: key a.json, line 1: is not json: invalid character"}},
		"YAML after a mark":     {"{key: a.yaml, cel: 'self.a == 1'}", map[string]string{"a.yaml": "\ufeffa: 1\n"}, nil},
		"TOML after a mark":     {"{key: a.toml, cel: 'self.a == 1'}", map[string]string{"a.toml": "\ufeffa = 1\n"}, nil},
		"others after a mark":   {"{key: a.properties, cel: 'self.a == \"1\"'}", map[string]string{"a.properties": "\ufeffa=1\n"}, nil},
		"INI after a mark":      {"{key: a.ini, cel: 'self.a == \"1\"'}", map[string]string{"a.ini": "\ufeffa = 1"}, nil},
		"no INI":                {"{key: a.ini}", map[string]string{"a.ini": "[a\n"}, []string{"validate[0]: key a.ini, line 1: is not ini: the section has no ]"}},

		"a schema": {
			"{key: a.yaml, schemaFrom: {key: s}}", map[string]string{"s": schema, "a.yaml": "name: x\nlimits: {max: 10}"}, nil,
		},
		"against a schema": {
			"{key: a.yaml, schemaFrom: {key: s}}",
			map[string]string{"s": schema, "a.yaml": "limits:\n  min: 1\n  max: 11\n"},
			[]string{"validate[0]: key a.yaml, line 1: the whole: missing property 'name'", "validate[0]: key a.yaml, line 3: limits.max: maximum: got 11, want 10"},
		},
		"against a schema, in JSON": {
			"{key: a.json, schemaFrom: {key: s}}",
			map[string]string{"s": schema, "a.json": "{\"name\": 1,\n\"limits\": {\n\"max\": 11}}"},
			[]string{"validate[0]: key a.json, line 3: limits.max: maximum"},
		},
		"against a schema, in the second document": {
			"{key: a.yaml, schemaFrom: {key: s}}",
			map[string]string{"s": schema, "a.yaml": "name: x\n---\n{}\n"},
			[]string{"validate[0]: key a.yaml, line 3: the whole: missing property 'name'"},
		},
		"against a schema, in JSON after a mark": {
			"{key: a.json, schemaFrom: {key: s}}",
			map[string]string{"s": "\ufeff" + schema, "a.json": "\ufeff{\"name\": 1,\n\"limits\": {\n\"max\": 11}}"},
			[]string{"validate[0]: key a.json, line 3: limits.max: maximum"},
		},
		"a format of a schema": {
			"{key: a.yaml, schemaFrom: {key: s}}",
			map[string]string{"s": formats, "a.yaml": "at: 10.0.0.1\nuntil: '2026-01-02T03:04:05Z'\nevery: P30D"},
			nil,
		},
		"against the formats of a schema": {
			"{key: a.yaml, schemaFrom: {key: s}}",
			map[string]string{"s": formats, "a.yaml": "at: 10.0.0.256\nuntil: tomorrow\nevery: 30d"},
			[]string{
				"validate[0]: key a.yaml, line 1: at: '10.0.0.256' is not valid ipv4", "validate[0]: key a.yaml, line 2: until: 'tomorrow' is not valid date-time",
				"validate[0]: key a.yaml, line 3: every: '30d' is not valid duration",
			},
		},
		"against the format of an older draft": {
			"{key: a.yaml, schemaFrom: {key: s}}",
			map[string]string{"s": `{"$schema": "http://json-schema.org/draft-07/schema#", "format": "email"}`, "a.yaml": "nobody"},
			[]string{"validate[0]: key a.yaml, line 1: the whole: 'nobody' is not valid email"},
		},
		"no schema":            {"{key: a.yaml, schemaFrom: {key: s}}", map[string]string{"a.yaml": ""}, []string{"validate[0]: key s: the key is missing"}},
		"what is not a schema": {"{key: a.yaml, schemaFrom: {key: s}}", map[string]string{"a.yaml": "", "s": `{"type": 1}`}, []string{"validate[0]: key s: is not a JSON Schema: "}},
		"a schema of the world": {
			"{key: a.yaml, schemaFrom: {key: s}}",
			map[string]string{"a.yaml": "", "s": `{"$ref": "https://example.com/s.json"}`},
			[]string{"validate[0]: key s: is not a JSON Schema: failing loading"},
		},
		"a schema in a file of the controller": {
			"{key: a.yaml, schemaFrom: {key: s}}",
			map[string]string{"a.yaml": "", "s": `{"$ref": "file:///etc/passwd"}`},
			[]string{"validate[0]: key s: is not a JSON Schema: failing loading"},
		},

		"a number that no library takes": {
			"{key: a.json, schemaFrom: {key: s}}",
			map[string]string{"s": `{"properties": {"a": {"maximum": 1}}}`, "a.json": `{"a": 1e2000000}`},
			[]string{"validate[0]: key a.json: the rule cannot be checked"},
		},

		"an expression":          {`{key: a.json, cel: "self.max <= 1000 && self.min < self.max"}`, map[string]string{"a.json": `{"max": 1000, "min": 0.5}`}, nil},
		"an expression of TOML":  {`{key: a.toml, cel: "self.a.b == 1 && self.t[1].c == 'x'"}`, map[string]string{"a.toml": "[a]\nb = 1\n[[t]]\n[[t]]\nc = 'x'"}, nil},
		"an expression of INI":   {`{key: a.ini, cel: "self.x == '1' && self.a.b == '2'"}`, map[string]string{"a.ini": "x = 1\n[a]\nb = 2"}, nil},
		"one of properties":      {`{key: a.properties, cel: "self['a.b'] == '1'"}`, map[string]string{"a.properties": "a.b=1"}, nil},
		"one with keys of YAML":  {`{key: a.yaml, cel: "self['1'] && self['true'] == null"}`, map[string]string{"a.yaml": "1: true\ntrue: null"}, nil},
		"one with large numbers": {`{key: a.json, cel: "self > 1.0"}`, map[string]string{"a.json": "1e999"}, nil},
		"one that is not true": {
			`{key: a.json, cel: "self.max <= 1000", message: "max is at most 1000"}`,
			map[string]string{"a.json": `{"max": 1001}`},
			[]string{"validate[0]: key a.json: max is at most 1000"},
		},
		"one that is not true, without a message": {
			`{key: a.json, cel: "self.max <= 1000"}`,
			map[string]string{"a.json": `{"max": 1001}`},
			[]string{`validate[0]: key a.json: "self.max <= 1000" is not true`},
		},
		"one about what is missing": {
			`{key: a.json, cel: "self.max <= 1000"}`,
			map[string]string{"a.json": `{}`},
			[]string{`validate[0]: key a.json: the expression "self.max <= 1000" cannot be evaluated: no such key: max`},
		},
		"one that is no expression": {
			`{key: a.json, cel: "self.max <="}`, map[string]string{"a.json": `{}`}, []string{"validate[0]: key a.json: the expression of the rule is wrong: "},
		},
		"one that is a number": {
			`{key: a.json, cel: "1"}`, map[string]string{"a.json": `{}`}, []string{"validate[0]: key a.json: the expression of the rule is wrong: it must be true or false, and is of type int"},
		},
		"one that costs too much": {
			`{key: a.json, cel: "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))"}`,
			map[string]string{"a.json": "[" + strings.Repeat("1,", 200) + "1]"},
			[]string{`validate[0]: key a.json: the expression "self.all`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := check(t, tc.rule, false, tc.data)
			if !beginWith(got, tc.want) {
				t.Errorf("problems (-want +got):\n%s", cmp.Diff(tc.want, got))
			}
			const secret = "hunter2"
			for key, value := range tc.data {
				if key != "s" {
					tc.data[key] = strings.NewReplacer("1001", `"`+secret+`"`, "11", `"`+secret+`"`, "]", secret+"]", ",}", secret).Replace(value)
				}
			}
			for _, text := range check(t, tc.rule, true, tc.data) {
				if strings.Contains(text, secret) {
					t.Errorf("of a Secret is said %q", text)
				}
			}
		})
	}
}

func beginWith(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			return false
		}
	}
	return true
}

func TestProblemsAreFewAndShort(t *testing.T) {
	t.Parallel()
	got := check(t, "{key: a.json, schemaFrom: {key: s}}", false, map[string]string{
		"s": `{"items": {"maxLength": 1, "enum": ["` + strings.Repeat("x", 1000) + `"]}}`, "a.json": "[" + strings.Repeat(`"aa",`, 50) + `"b"]`,
	})
	if len(got) != 5 {
		t.Errorf("%d problems are shown, want 5", len(got))
	}
	for _, text := range got {
		if len(text) > 500 {
			t.Errorf("a problem has %d bytes", len(text))
		}
	}
}

// FuzzCheck: whatever the value, a rule is checked without a panic, and what is no JSON is no YAML of
// objects either.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{"{}", "a: &b [1]\nc: *b", "[a]\nb=1", "a=${a}", "- 1\n- .inf\n- 2001-01-01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var rules []settings.Rule
		for _, format := range settings.Formats() {
			rules = append(rules, settings.Rule{Key: "a", Format: format, SchemaKey: "s", CEL: "has(self.a) || self == 1"})
		}
		problems := validation.Check(rules, validation.Content{
			Data: map[string][]byte{"a": []byte(text), "s": []byte(`{"type": "object", "additionalProperties": {"minimum": 3}}`)}, Now: now,
		})
		for _, p := range problems {
			if p.Key != "a" || p.Line < 0 || p.Text == "" {
				t.Errorf("%q has the problem %+v", text, p)
			}
		}
	})
}

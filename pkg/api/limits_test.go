package api_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

func TestParseListsTwentyMistakesAndCountsTheRest(t *testing.T) {
	t.Parallel()
	var items, want strings.Builder
	for i := range 33 {
		fmt.Fprintf(&items, "- {key: k, path: /%d}\n", i)
		if i < 20 {
			fmt.Fprintf(&want, "items[%d].path: Invalid value: %q: must be relative to the volume, drop the slash in front; ",
				i, fmt.Sprint("/", i))
		}
	}
	_, err := api.Parse(attributes{"configMap": "app", "items": items.String()}, "default")
	var mistakes *api.AttributesError
	if !errors.As(err, &mistakes) {
		t.Fatalf("Parse error = %v, want an *api.AttributesError", err)
	}
	if len(mistakes.Mistakes) != 20 || mistakes.More != 13 {
		t.Errorf("Parse error has %d mistakes and %d more, want 20 and 13", len(mistakes.Mistakes), mistakes.More)
	}
	if got, want := err.Error(), "33 mistakes in volumeAttributes: "+want.String()+"and 13 more"; got != want {
		t.Errorf("Parse error:\n got %s\nwant %s", got, want)
	}
}

// TestParseMessageIsBounded gives every part of a message that comes from the user as much as it can hold.
func TestParseMessageIsBounded(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("\x01", 500)
	var items strings.Builder
	for i := range 30 {
		fmt.Fprintf(&items, "- {key: k, path: %q}\n- {key: k, path: %q}\n",
			fmt.Sprint("a", i, "/", wide[:200]), fmt.Sprint("./a", i, "//", wide[:200]))
	}
	tests := map[string]attributes{
		"conflicting paths": {"configMap": "app", "items": items.String()},
		"unknown fields":    {"configMap": "app", "items": fmt.Sprintf("[{%[1]q: 1, %[2]q: 2, %[3]q: 3}]", wide, "b"+wide, "c"+wide)},
		"unknown attributes": {
			wide: wide, "a" + wide: wide, "b" + wide: wide, "c" + wide: wide, "d" + wide: wide, "e" + wide: wide,
		},
		"values": {
			"configMap": wide, "secret": wide, "namespace": wide, "items": wide, "optional": wide, "defaultMode": wide,
			"uid": wide, "gid": wide, "updatePolicy": wide, "onDelete": wide,
		},
		"names in a file": {
			"sources": fmt.Sprintf("[{secret: {name: a, as: {path: %[1]q, format: %[1]q, %[1]q: 1}, items: "+
				"[{key: %[1]q}, {key: k, path: %[1]q}, {key: %[2]q}, {key: %[2]q}, {key: k, path: k, %[2]q: 1}]}}]", wide, wide[:200]),
		},
		"text that is not YAML": {"sources": "[" + strings.Repeat("*", 5000)},
		"a reader's complaint":  {"sources": "[{? {" + strings.Repeat("a", 5000) + ": 5} : '<<'}]"},
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := api.Parse(in, "default")
			if err == nil {
				t.Fatal("Parse found nothing wrong, want mistakes")
			}
			checkMistakes(t, err)
		})
	}
}

// laughs is a text in which each of the levels lists ten aliases of the one before.
func laughs(levels int) string {
	var text strings.Builder
	text.WriteString("- &a0 [{configMap: {name: app}}]\n")
	for i := range levels {
		fmt.Fprintf(&text, "- &a%d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return text.String()
}

// numbered returns a format with the numbers from 0, one after the other.
func numbered(format string, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// TestParseRefusesWhatIsTooMuch: a text that is short and stands for much, or is longer than what anybody needs (fault 38).
func TestParseRefusesWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	entries := func(n int) string { return "[" + strings.Repeat("{secret: {name: x}}, ", n) + "]" }
	items := func(n int) string { return "[" + strings.Repeat("{key: k, path: p},", n) + "]" }
	keys := numbered("{key: k%d},", 64)
	const (
		aliases = "anchors and aliases (&, *) are not supported"
		parts   = "entries and fields, the most is 20000: name fewer keys, or use two volumes"
	)
	tests := map[string]struct {
		in   attributes
		want string // Empty for none.
	}{
		"ten to the ninth":                     {attributes{"sources": laughs(9)}, aliases},
		"aliases of a long list":               {attributes{"sources": "- &a " + entries(900) + "\n- [" + strings.Repeat("*a, ", 5000) + "]\n"}, aliases},
		"one alias of one name":                {attributes{"sources": "[{configMap: {name: &a x}}, {secret: {name: *a}}]"}, aliases},
		"as many sources as there may be":      {attributes{"sources": entries(2048)}, ""},
		"one source more":                      {attributes{"sources": entries(2049)}, "sources: Invalid value: 2049: the most for a volume is 2048, this makes 2049: use two volumes"},
		"as many items as text allows":         {attributes{"configMap": "a", "items": items(3640)}, ""},
		"entries of sources that hold nothing": {attributes{"sources": "[" + strings.Repeat("{},", 21_000) + "]"}, parts},
		"words":                                {attributes{"sources": "[" + strings.Repeat("a,", 32_000) + "]"}, parts},
		"words of an object":                   {attributes{"sources": "{" + strings.Repeat("a,", 32_000) + "}"}, parts},
		"quoted words without spaces":          {attributes{"sources": `{` + strings.Repeat(`"a":1,`, 10_500) + "}"}, parts},
		"depth":                                {attributes{"sources": strings.Repeat("[", 20_001)}, parts},
		"a list for each line":                 {attributes{"sources": strings.Repeat("-\n", 20_001)}, parts},
		"lists in lists":                       {attributes{"sources": strings.Repeat("- ", 20_001)}, parts},
		"fields that are asked for":            {attributes{"sources": strings.Repeat("?\n", 20_001)}, parts},
		"items of all sources": {
			attributes{"sources": "[" + numbered("{secret: {name: s, as: {path: f%d, format: json}, items: ["+keys+"]}},", 65) + "]"},
			"the most for a volume is 4096, this makes 4160: use two volumes",
		},
	}
	for name, test := range tests {
		_, err := api.Parse(test.in, "default")
		if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: Parse error = %.300v, want %q", name, err, test.want)
		}
	}
}

// TestParseBoundsItsMemory is about texts that pass the limits of the reader, or nearly. What they make Parse allocate,
// garbage included, must be no more than a driver can spare (fault 38). It is not parallel because other tests would allocate too.
func TestParseBoundsItsMemory(t *testing.T) {
	const limit = 40 << 20
	many := strings.Repeat("{secret: {name: x}}, ", 2000)
	tests := map[string]string{
		"nested lists":   strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"nested objects": strings.Repeat("{configMap: ", 9000) + strings.Repeat("}", 9000),
		"many entries":   "[" + strings.Repeat("a,", 19_990) + "]",
		"many fields":    "{" + strings.Repeat("a,", 19_990) + "}",
		"empty entries":  "[" + strings.Repeat("{},", 9_990) + "]",
		"many aliases":   "- {configMap: &a {name: app}}\n" + strings.Repeat("- {secret: *a}\n", 4_000),
		"long aliases":   "- &a [" + many + "]\n- [" + strings.Repeat("*a, ", 40) + "]\n",
		// What a reader complains of for each field, or reads again after it has tried another type.
		"numbers as fields":       numbers(6_500),
		"lists as fields":         "{" + strings.Repeat("[a]: b,", 4_900) + "}",
		"objects as fields":       "{" + strings.Repeat("{a: b}: c,", 3_300) + "}",
		"one field, often":        "{" + strings.Repeat("configMap: b,", 4_900) + "}",
		"numbers as fields, deep": strings.Repeat("[", 5_000) + numbers(4_000) + strings.Repeat("]", 5_000),
		"numbers in each list":    strings.Repeat("[{1: a},", 4_900) + strings.Repeat("]", 4_900),
		"lists in each field":     strings.Repeat("{[a]: [", 3_300) + strings.Repeat("]}", 3_300),
		"tags that do not fit":    "[" + strings.Repeat("!!map a,", 7_000) + "]",
		"tags of lists":           "[" + strings.Repeat("!!seq {},", 6_000) + "]",
		"one path, often": "- secret: {name: a, items: &a [" + strings.Repeat("{key: k, path: x},", 1800) + "]}\n" +
			"- secret: {name: b, items: *a}\n",
		"one name, often": "- secret: {name: a, as: {path: a, format: json}, items: [" + strings.Repeat("{key: k},", 4000) + "]}\n",
		"one file, often": "[" + strings.Repeat("{secret: {name: a, as: {path: a, format: json}}},", 1024) + "]",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			got := allocated(func() { _, _ = api.Parse(attributes{"sources": text}, "default") })
			t.Logf("Parse of %d bytes allocated %d MiB", len(text), got>>20)
			if got > limit {
				t.Errorf("Parse of %d bytes allocated %d bytes, want at most %d", len(text), got, limit)
			}
		})
	}
}

// numbers returns an object of which each field is another number.
func numbers(n int) string { return "{" + numbered("%d: a,", n) + "}" }

// TestNamesOfValuesAreShort: the prefix is stored once for each key of the object, of which there may be a hundred thousand.
func TestNamesOfValuesAreShort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[{configMap: {name: a, prefix: " + strings.Repeat("A", 64) + "}}]":                   "",
		"[{configMap: {name: a, prefix: " + strings.Repeat("A", 65) + "}}]":                   "values[0].configMap.prefix: Too long: may not be more than 64 bytes",
		"[{configMap: {name: a, items: [{key: a, path: " + strings.Repeat("A", 253) + "}]}}]": "",
		"[{configMap: {name: a, items: [{key: a, path: " + strings.Repeat("A", 254) + "}]}}]": "values[0].configMap.items[0].path: Too long: may not be more than 253 bytes",
		"[{pod: {name: " + strings.Repeat("A", 254) + "}}]":                                   "values[0].pod.name: Too long: may not be more than 253 bytes",
	} {
		_, err := api.Parse(attributes{"sources": "[{configMap: {name: a, expand: {}}}]", "values": text}, "default")
		if got := fmt.Sprint(err); err != nil && (want == "" || !strings.HasSuffix(got, want)) || err == nil && want != "" {
			t.Errorf("Parse(%.80s) = %v, want %q", text, err, want)
		}
	}
}

// TestPathOfBoundsItsMemory: a selection asks for the path of each key of up to a thousand objects, of which others may write the
// names and the annotation.
func TestPathOfBoundsItsMemory(t *testing.T) { // Not parallel, as before.
	const elements, keysPerElement, limit = 63, 8, 24 << 10
	template := strings.Repeat(strings.Repeat("$(key)", keysPerElement)+"/", elements) + "$(key)"
	ref := api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "orders"}
	key := strings.Repeat("k", 253)
	const tooLong, tooDeep = "must have at most 4096 bytes, not ", "must have at most 64 elements, not "
	tests := map[string]struct{ path, folder, problem string }{
		"a long path of a key":       {template, "", tooLong + "127828"},
		"a long folder":              {"$(key)", strings.Repeat("a", 4097), tooLong + "4351"},
		"a folder of slashes":        {"$(key)", strings.Repeat("/", 3800), tooDeep},
		"a folder of many folders":   {"$(key)", strings.Repeat("a/", 1900), tooDeep + "1901"},
		"a folder of slashes, short": {"$(key)", "a" + strings.Repeat("/", 50) + "b", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var problem string
			took := allocated(func() { _, problem = api.Selection{Path: test.path}.PathOf(ref, key, test.folder) })
			if test.problem == "" && problem != "" || !strings.HasPrefix(problem, test.problem) {
				t.Errorf("PathOf has the problem %q, want %q", problem, test.problem)
			}
			if took > limit {
				t.Errorf("PathOf allocates %d bytes, want at most %d", took, limit)
			}
		})
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

package expansion_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/expansion"
)

var known = map[string]string{
	"A": "1", "EMPTY": "", "DB_PASS": `p"a$s'\ss`, "REF": "$(A)", "a.b-c": "dots", "BINARY": "\xff\x00", "LINES": "x\ny",
}

func values(name string) ([]byte, bool) {
	value, found := known[name]
	if value == "" {
		return nil, found
	}
	return []byte(value), found
}

// expand returns the text with its values, and the mistakes.
func expand(t *testing.T, text string, e api.Expand) (string, []string) {
	t.Helper()
	size, mistakes := expansion.Size([]byte(text), e, values, 1<<20, func(string) {})
	var all []string
	for _, m := range mistakes {
		all = append(all, m.Error())
	}
	if len(all) > 0 {
		return "", all
	}
	got := expansion.Append(nil, []byte(text), e, values)
	if len(got) != size {
		t.Errorf("%q has %d bytes, and was measured to have %d", text, len(got), size)
	}
	return string(got), nil
}

func TestExpand(t *testing.T) {
	t.Parallel()
	parentheses, braces := api.Expand{Syntax: api.SyntaxParentheses, Quote: api.QuoteNone}, api.Expand{Syntax: api.SyntaxBraces, Quote: api.QuoteNone}
	for text, want := range map[string]string{
		"":                                     "",
		"no place":                             "no place",
		"$(A)":                                 "1",
		"x$(A)y$(A)z":                          "x1y1z",
		"$(EMPTY)|":                            "|",
		"$(a.b-c)":                             "dots",
		"$$(A)":                                "$(A)",
		"$$$(A)":                               "$1",
		"$$$$(A) $(A)":                         "$$(A) 1",
		"$(REF)":                               "$(A)", // What is put in is not looked at again.
		"$(NONE:-text) $(A:-text)":             "text 1",
		"$(NONE:-)":                            "",
		"$(NONE:-a|b:-c)":                      "a|b:-c",
		"$(EMPTY:-text)":                       "",
		"$(DB_PASS|json)":                      `"p\"a$s'\\ss"`,
		"$(DB_PASS|sh)":                        `'p"a$s'\''\ss'`,
		"$(NONE|json:-x\"y)":                   `"x\"y"`,
		"$(A|base64)$(A|url)":                  "MQ==1",
		"$(DB_PASS|url)":                       "p%22a%24s%27%5Css",
		"$(LINES|properties)":                  `x\ny`,
		"$(date +%s) $(1A) $() $(":             "$(date +%s) $(1A) $() $(",
		"$(A $(A) ${A} $A $$ a$$b":             "$(A 1 ${A} $A $$ a$$b",
		"$(A|JSON) $(A|) $(A:x)":               "$(A|JSON) $(A|) $(A:x)",
		"$(" + strings.Repeat("x", 5000) + ")": "$(" + strings.Repeat("x", 5000) + ")",
	} {
		if got, mistakes := expand(t, text, parentheses); got != want || mistakes != nil {
			t.Errorf("%.80q = %.80q, %q, want %.80q", text, got, mistakes, want)
		}
	}
	for text, want := range map[string]string{
		"${A} $${A} $A $(A) ${A|json} ${NONE:-x}": `1 ${A} $A $(A) "1" x`, "${a b}": "${a b}",
	} {
		if got, mistakes := expand(t, text, braces); got != want || mistakes != nil {
			t.Errorf("%q = %q, %q, want %q", text, got, mistakes, want)
		}
	}
	if got, _ := expand(t, `{"a": $(DB_PASS), "b": $(A|none), "c": $(NONE:-x)}`, api.Expand{Syntax: api.SyntaxParentheses, Quote: api.QuoteJSON}); got != `{"a": "p\"a$s'\\ss", "b": 1, "c": "x"}` {
		t.Errorf("quoted by default: %s", got)
	}
}

// TestMistakes have the line and the name, and the values are not shown.
func TestMistakes(t *testing.T) {
	t.Parallel()
	e := api.Expand{Syntax: api.SyntaxParentheses, Quote: api.QuoteNone}
	for text, want := range map[string][]string{
		"a\nb $(NONE)\n$(A)\n$(NONE2)": {"line 2: no value is called NONE, and it has no default", "line 4: no value is called NONE2, and it has no default"},
		"\n$(BINARY|json)":             {"line 2: BINARY: a value that is not text in UTF-8"},
		"$(BINARY|sh)":                 {"line 1: BINARY: a value with a NUL byte"},
		"$(A|xml)":                     {`line 1: A: there is no quoting "xml"; there are none, json, yaml, sh, url, base64, properties`},
		"$(NONE:-a\nb)\n$(OTHER)":      {"line 3: no value is called OTHER, and it has no default"},
	} {
		if _, got := expand(t, text, e); !cmp.Equal(want, got) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	many := strings.Repeat("$(NONE)\n", 1000)
	if _, got := expand(t, many, e); len(got) != 20 {
		t.Errorf("%d mistakes, want 20", len(got))
	}
}

// TestTooMuch is known without being made, and without reading the rest of the text.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	large := make([]byte, 1<<20)
	asked := 0
	of := func(string) ([]byte, bool) {
		asked++
		return large, true
	}
	text := []byte(strings.Repeat("$(A)", 200_000))
	size, mistakes := expansion.Size(text, api.Expand{Syntax: api.SyntaxParentheses, Quote: api.QuoteNone}, of, 4<<20, func(string) {})
	if size <= 4<<20 || size > 6<<20 || mistakes != nil || asked > 6 {
		t.Errorf("size %d, %q, after %d values", size, mistakes, asked)
	}
}

// FuzzIsName: names are those of environment variables, as Kubernetes has them.
func FuzzIsName(f *testing.F) {
	for _, name := range []string{"", "A", "a.b-c", "1", "A1", ".", "..", "..a", ".a", "-", "_", " ", "a b", "a\n", "ä", "\xff", "a=b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := expansion.IsName(name), len(validation.IsEnvVarName(name)) == 0; got != want {
			t.Errorf("IsName(%q) = %t, want %t", name, got, want)
		}
	})
}

// FuzzExpand: whatever the text, it is measured as it is made, and text without places stays.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{"$(A)", "$$$(A)", "$(A|json:-x)", "${A}", "$(", "$$$$((A)", "$(NONE:-$(A))"} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, isBraces bool) {
		e := api.Expand{Syntax: api.SyntaxParentheses, Quote: api.QuoteNone}
		if isBraces {
			e.Syntax = api.SyntaxBraces
		}
		got, mistakes := expand(t, text, e)
		if len(mistakes) == 0 && !strings.Contains(text, "$(") && !strings.Contains(text, "${") && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}

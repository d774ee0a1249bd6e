package rendering_test

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/rendering"
)

// quoteReaders are files with a place for a value, and what reads them.
func quoteReaders() map[api.Quote]struct {
	before, after string
	format        api.Format
} {
	return map[api.Quote]struct {
		before, after string
		format        api.Format
	}{
		api.QuoteJSON:       {`{"before": "x", "A": `, `, "after": "z"}`, api.FormatJSON},
		api.QuoteYAML:       {"before: x\nA: ", "\nafter: z\n", api.FormatYAML},
		api.QuoteShell:      {"before=x\nA=", "\nafter=z\n", api.FormatDotenv},
		api.QuoteProperties: {"before=x\nA=", "\nafter=z\n", api.FormatProperties},
	}
}

func checkQuoted(t *testing.T, value []byte) {
	t.Helper()
	for quote, file := range quoteReaders() {
		size, err := rendering.QuotedSize(quote, value)
		mayHold := utf8.Valid(value)
		if quote == api.QuoteShell {
			mayHold = !strings.Contains(string(value), "\x00")
		}
		if (err == nil) != mayHold || err != nil && !errors.Is(err, rendering.ErrText) && !errors.Is(err, rendering.ErrNUL) {
			t.Errorf("%s of %q: %v, want that it can be held: %t", quote, value, err, mayHold)
		}
		if err != nil {
			continue
		}
		text := rendering.AppendQuoted([]byte(file.before), quote, value)
		if got := len(text) - len(file.before); got != size {
			t.Errorf("%s of %q has %d bytes, and was measured to have %d", quote, value, got, size)
		}
		text = append(text, file.after...)
		for name, read := range readers()[file.format] {
			if name == "liveconfig-exec" {
				continue // It refuses what only a shell reads; the shells are there too.
			}
			got := read(t, text, []string{"before", "A", "after"})
			if got["A"] != string(value) || got["before"] != "x" || got["after"] != "z" || len(got) != 3 {
				t.Errorf("%s reads %q from %q, want %q", name, got, text, value)
			}
		}
	}
	of := func(q api.Quote) string {
		text := rendering.AppendQuoted(nil, q, value)
		if size, err := rendering.QuotedSize(q, value); size != len(text) || err != nil {
			t.Errorf("%s of %q has %d bytes, measured were %d, %v", q, value, len(text), size, err)
		}
		return string(text)
	}
	for name, unescape := range map[string]func(string) (string, error){"path": url.PathUnescape, "query": url.QueryUnescape} {
		if got, err := unescape(of(api.QuoteURL)); got != string(value) || err != nil {
			t.Errorf("%s of a URL: %q, %v, want %q", name, got, err, value)
		}
	}
	u, err := url.Parse("https://user:" + of(api.QuoteURL) + "@host/" + of(api.QuoteURL) + "?q=" + of(api.QuoteURL) + "#f")
	if err != nil {
		t.Fatalf("%q: %v", value, err)
	}
	if password, _ := u.User.Password(); password != string(value) || u.Host != "host" || u.Query().Get("q") != string(value) || u.Fragment != "f" {
		t.Errorf("the URL is %s, want %q in three places", u, value)
	}
	if got, err := base64.StdEncoding.DecodeString(of(api.QuoteBase64)); string(got) != string(value) || err != nil {
		t.Errorf("base64: %q, %v, want %q", got, err, value)
	}
	if got := of(api.QuoteNone); got != string(value) {
		t.Errorf("none: %q, want %q", got, value)
	}
}

// TestQuotedValuesComeBack: a real reader reads the value, and it neither ends nor extends its place.
func TestQuotedValuesComeBack(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"", " ", "a", "'", `"`, `\`, "\n", "a\nb: c", "a\r\nb", "$(A)", "`id`", "$HOME", "'; exit 1; '", "#", "!", "= :", "  lead", "trail  ", "\t",
		"null", "true", "1e3", "0x10", "~", "- a", "{a: b}", "\u2028\u0085\ufeff", "ü€😀", "\x00", "\x7f\x1b", "\xff\xfe", "a\\\nb", "%41+&=?/", "\u0000\u0001",
	} {
		checkQuoted(t, []byte(value))
	}
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	checkQuoted(t, all)
	random := rand.New(rand.NewPCG(1, 2))
	const alphabet = "aA0 '\"\\$`\n\r\t#:=!&|;<>(){}[]*?~%+-,.\x00\x80\xc3\xa4\u2028"
	for range 50 {
		value := make([]byte, random.IntN(20))
		for i := range value {
			value[i] = alphabet[random.IntN(len(alphabet))]
		}
		checkQuoted(t, value)
	}
}

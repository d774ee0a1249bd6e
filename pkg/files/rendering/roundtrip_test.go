package rendering_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/rendering"
)

// checkReadersAgree renders the values and wants each reader of the format to read them again.
func checkReadersAgree(t *testing.T, format api.Format, values map[string][]byte) {
	t.Helper()
	want := map[string]string{}
	for name, value := range values {
		if _, err := rendering.Size(format, name, value); err != nil {
			t.Fatalf("Size(%q, %q): %v", name, value, err)
		}
		want[name] = string(value)
	}
	file := rendering.Render(format, values)
	for by, read := range readers()[format] {
		got := read(t, file, slices.Sorted(maps.Keys(values)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s read by %s from %q (-want +got):\n%s", format, by, file, diff)
		}
	}
}

// TestEveryByteComesBack has each byte that a format takes alone, at both ends and between others, and each character beyond
// that means something somewhere.
func TestEveryByteComesBack(t *testing.T) {
	t.Parallel()
	for _, format := range api.Formats() {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			all := map[string][]byte{"EMPTY": {}}
			add := func(name, text string) {
				if _, err := rendering.Size(format, name, []byte(text)); err != nil {
					return
				}
				all[name] = []byte(text)
				all[name+"_TWICE"] = []byte(text + text)
				all[name+"_AROUND"] = []byte(text + "x" + text)
				all[name+"_WITHIN"] = []byte("x" + text + "'" + text + "\\" + text + "y")
			}
			for b := range 256 {
				add(fmt.Sprintf("BYTE_%02x", b), string([]byte{byte(b)}))
			}
			for _, r := range "\u0080\u0085\u009f\u00a0\u00e9\u2028\u2029\u202e\ud7ff\ue000\ufeff\ufffd\ufffe\uffff\U00010000\U0001f600\U0001fffe\U0010ffff" {
				add(fmt.Sprintf("CODE_%x", r), string(r))
			}
			if len(all) < 128*4 {
				t.Fatalf("only %d values fit into %s", len(all), format)
			}
			checkReadersAgree(t, format, all)
		})
	}
}

// TestNamesComeBack has names that mean something to readers.
func TestNamesComeBack(t *testing.T) {
	t.Parallel()
	names := []string{
		"a.b-c_D", "~", "yes", "null", "1e3", "0x10", "<<", "---", "...", "? a", "- a", "a: b", "a #b", "# a", "! a", "=", ":", "a=b",
		" a", "a ", `"`, "'", `\`, "%TAG", "@a", "&a", "*a", "{a}", "[a]", "größe", "日本", "😀", strings.Repeat("k", 253),
		strings.Repeat("\u0085", 126), strings.Repeat(`"`, 253), "\u2028", "${a}", "..",
	}
	for _, format := range []api.Format{api.FormatJSON, api.FormatYAML, api.FormatProperties} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			all := map[string][]byte{}
			for _, name := range names {
				all[name] = []byte("value of " + name)
			}
			checkReadersAgree(t, format, all)
		})
	}
}

// TestLargeValuesComeBack has a value as large as an object can be, of all kinds of characters.
func TestLargeValuesComeBack(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for text.Len() < 1<<20-utf8.UTFMax {
		text.WriteRune([]rune{rune(1 + r.IntN(127)), '\'', '\n', ' ', rune(0x80 + r.IntN(0x700)), rune(0x10000 + r.IntN(0x1000))}[r.IntN(6)])
	}
	for _, format := range api.Formats() {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			checkReadersAgree(t, format, values("LARGE", text.String()))
		})
	}
}

// FuzzRender renders two names with their values in each format that takes them.
func FuzzRender(f *testing.F) {
	for _, seed := range [][4]string{
		{"A", "1", "B", "2"},
		{"log.level", "debug", "app.conf", "a = b\nc = d\n"},
		{"A", "it's", "B", "$(touch x) `touch y` \"z\" \\"},
		{"A", "'", "B", "'\\''"},
		{"A", " # x", "B", "\t! y\r\n"},
		{"<<", "~", "=", "\u2028\u0085\ufeff"},
		{"A", "\x00", "B", "\xff\xfe"},
		{"", "", "A", "\x7f\x1b\uffff\U0010ffff"},
	} {
		f.Add(seed[0], []byte(seed[1]), seed[2], []byte(seed[3]))
	}
	f.Fuzz(func(t *testing.T, first string, a []byte, second string, b []byte) {
		for _, format := range api.Formats() {
			all := map[string][]byte{}
			for name, value := range map[string][]byte{first: a, second: b} {
				if format == api.FormatDotenv {
					name = "X_" + name // Some variables mean something to shells.
				}
				if len(name) > 253 { // No object and no item has such a name. YAML ends keys at 1024.
					continue
				}
				if _, err := rendering.Size(format, name, value); err == nil {
					all[name] = value
				}
			}
			checkReadersAgree(t, format, all)
		}
	})
}

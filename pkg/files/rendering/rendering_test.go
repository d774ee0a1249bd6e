package rendering_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/rendering"
)

// values returns what is given, names and values taking turns.
func values(pairs ...string) map[string][]byte {
	all := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = []byte(pairs[i+1])
	}
	return all
}

func TestRender(t *testing.T) {
	t.Parallel()
	everything := values("TEXT", "it's \"a\" \\ b", "LINES", "one\ntwo\r\n\tthree\n", "EMPTY", "", "BLANKS", "  both ends  ",
		"SIGNS", "#!=:$(x)`y`%&", "WORDS", "größe 日本 😀")
	tests := map[string]struct {
		format api.Format
		in     map[string][]byte
		want   string
	}{
		"nothing in dotenv":     {api.FormatDotenv, nil, ""},
		"nothing in JSON":       {api.FormatJSON, nil, "{}\n"},
		"nothing in YAML":       {api.FormatYAML, nil, "{}\n"},
		"nothing in properties": {api.FormatProperties, nil, ""},
		"dotenv": {api.FormatDotenv, everything, `BLANKS='  both ends  '
EMPTY=''
LINES='one
two` + "\r\n\t" + `three
'
SIGNS='#!=:$(x)` + "`y`" + `%&'
TEXT='it'\''s "a" \ b'
WORDS='größe 日本 😀'
`},
		"JSON": {api.FormatJSON, everything, `{
  "BLANKS": "  both ends  ",
  "EMPTY": "",
  "LINES": "one\ntwo\r\n\tthree\n",
  "SIGNS": "#!=:$(x)` + "`y`" + `%&",
  "TEXT": "it's \"a\" \\ b",
  "WORDS": "größe 日本 😀"
}
`},
		"YAML": {api.FormatYAML, everything, `"BLANKS": "  both ends  "
"EMPTY": ""
"LINES": "one\ntwo\r\n\tthree\n"
"SIGNS": "#!=:$(x)` + "`y`" + `%&"
"TEXT": "it's \"a\" \\ b"
"WORDS": "größe 日本 😀"
`},
		"properties": {api.FormatProperties, everything, `BLANKS=\  both ends  ` + `
EMPTY=
LINES=one\ntwo\r\n\tthree\n
SIGNS=\#\!\=\:$(x)` + "`y`" + `%&
TEXT=it's "a" \\ b
WORDS=gr\u00f6\u00dfe \u65e5\u672c \ud83d\ude00
`},
		"one name in JSON":            {api.FormatJSON, values("a.b-c", "1"), "{\n  \"a.b-c\": \"1\"\n}\n"},
		"control characters in JSON":  {api.FormatJSON, values("a", "\x00\b\x1b\x7f"), "{\n  \"a\": \"\\u0000\\u0008\\u001b\\u007f\"\n}\n"},
		"what YAML takes for breaks":  {api.FormatYAML, values("a", "\u0085\u2028\u2029\ufeff\uffff"), `"a": "\u0085\u2028\u2029\ufeff\uffff"` + "\n"},
		"what YAML takes for a merge": {api.FormatYAML, values("<<", "x", "~", "yes"), "\"<<\": \"x\"\n\"~\": \"yes\"\n"},
		"a property's name":           {api.FormatProperties, values(" a b:c=d", "e"), `\ a\ b\:c\=d=e` + "\n"},
		"a NUL byte in properties":    {api.FormatProperties, values("a", "\x00"), `a=\u0000` + "\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := string(rendering.Render(tt.format, tt.in))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Render (-want +got):\n%s", diff)
			}
			if again := string(rendering.Render(tt.format, tt.in)); again != got {
				t.Errorf("Render gave %q and then %q, want the same", got, again)
			}
		})
	}
}

func TestSizeRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name, value string
		want        map[api.Format]error // Nil for formats that are not there.
	}{
		"an ordinary name":          {"COLOR_2", "red", nil},
		"a name with a dot":         {"log.level", "x", map[api.Format]error{api.FormatDotenv: rendering.ErrName}},
		"a name with a dash":        {"log-level", "x", map[api.Format]error{api.FormatDotenv: rendering.ErrName}},
		"a name with a digit first": {"2nd", "x", map[api.Format]error{api.FormatDotenv: rendering.ErrName}},
		"a name with a letter that is not ASCII": {"größe", "x", map[api.Format]error{
			api.FormatDotenv: rendering.ErrName,
		}},
		"no name": {"", "x", map[api.Format]error{
			api.FormatDotenv: rendering.ErrName, api.FormatJSON: rendering.ErrName, api.FormatYAML: rendering.ErrName,
			api.FormatProperties: rendering.ErrName,
		}},
		"a NUL byte": {"a", "x\x00y", map[api.Format]error{api.FormatDotenv: rendering.ErrNUL}},
		"other bytes than UTF-8": {"a", "x\xffy", map[api.Format]error{
			api.FormatJSON: rendering.ErrText, api.FormatYAML: rendering.ErrText, api.FormatProperties: rendering.ErrText,
		}},
		"half a surrogate pair": {"a", "\xed\xa0\x80", map[api.Format]error{
			api.FormatJSON: rendering.ErrText, api.FormatYAML: rendering.ErrText, api.FormatProperties: rendering.ErrText,
		}},
		"a name that is not UTF-8": {"a\xff", "x", map[api.Format]error{
			api.FormatDotenv: rendering.ErrName,
			api.FormatJSON:   rendering.ErrText, api.FormatYAML: rendering.ErrText, api.FormatProperties: rendering.ErrText,
		}},
	}
	for name, tt := range tests {
		for _, format := range api.Formats() {
			t.Run(name+" in "+string(format), func(t *testing.T) {
				t.Parallel()
				if _, err := rendering.Size(format, tt.name, []byte(tt.value)); !errors.Is(err, tt.want[format]) {
					t.Errorf("Size(%q, %q) error = %v, want %v", tt.name, tt.value, err, tt.want[format])
				}
			})
		}
	}
}

// TestSizeIsThatOfTheFile holds what is reserved for a file against what it takes, at the worst that each format can do.
func TestSizeIsThatOfTheFile(t *testing.T) {
	t.Parallel()
	const length = 10_000
	for format, worst := range map[api.Format]string{
		api.FormatDotenv: "'", api.FormatJSON: "\x01", api.FormatYAML: "\x01", api.FormatProperties: "\x01",
	} {
		for _, text := range []string{worst, " ", "a", "é", "😀", "\n", `\`, `"`} {
			t.Run(string(format)+" of "+text, func(t *testing.T) {
				t.Parallel()
				value := []byte(strings.Repeat(text, length))
				file := rendering.Render(format, map[string][]byte{"A": value, "B": value})
				total := rendering.FrameSize
				for _, name := range []string{"A", "B"} {
					size, err := rendering.Size(format, name, value)
					if err != nil {
						t.Fatal(err)
					}
					if least := len(name) + len(value) + rendering.LeastBetween; size < least {
						t.Errorf("Size = %d, want at least %d", size, least)
					}
					total += size
				}
				if over := total - len(file); over < 0 || over > rendering.FrameSize+1 {
					t.Errorf("the file has %d bytes, which is %d less than said, want 0 to %d", len(file), over, rendering.FrameSize+1)
				}
				if cap(file) > total+total/4 {
					t.Errorf("%d bytes were taken for a file of %d", cap(file), len(file))
				}
			})
		}
	}
}

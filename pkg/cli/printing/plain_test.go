package printing_test

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"letters of all kinds":    {"Grüße, 世界 «a» \"b\" 'c' \\", "Grüße, 世界 «a» \"b\" 'c' \\"},
		"lines":                   {"a\n\tb\n", "a\n\tb\n"},
		"colours":                 {"\x1b[31mred\x9b", `\x1b[31mred\x9b`},
		"C1 as UTF-8":             {"\u009b31m", `\u009b31m`},
		"a title and a bell":      {"\x1b]0;x\a\r\x00\x7f", `\x1b]0;x\a\r\x00\x7f`},
		"what turns text around":  {"a\u202eb\u2066", `a\u202eb\u2066`},
		"bytes that are no UTF-8": {"a\xff\xc3", `a\xff\xc3`},
		"the sign for no UTF-8":   {"a\ufffd", "a\ufffd"},
	}
	for name, test := range tests {
		if got := printing.Plain(test.text); got != test.want {
			t.Errorf("%s: plain = %q, want %q", name, got, test.want)
		}
	}
	if got, want := printing.PlainLine("a\nb\x1b"), `a\nb\x1b`; got != want {
		t.Errorf("plainLine = %q, want %q", got, want)
	}
}

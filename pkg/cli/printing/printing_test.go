package printing_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		known []string
		given string
		want  string
	}{
		"none is given":      {[]string{"json"}, "", ""},
		"a known one":        {[]string{"wide", "json"}, "wide", ""},
		"one is known":       {[]string{"json"}, "yaml", `--output "yaml" is not known: use json, or leave it out`},
		"two are known":      {[]string{"json", "yaml"}, "x", `--output "x" is not known: use json or yaml, or leave it out`},
		"several are known":  {[]string{"wide", "json", "yaml", "name"}, "x", `--output "x" is not known: use wide, json, yaml or name, or leave it out`},
		"the case has to be": {[]string{"json"}, "JSON", `--output "JSON" is not known: use json, or leave it out`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f printing.Format
			c := &cobra.Command{}
			f.AddFlag(c, "", test.known...)
			if err := c.ParseFlags([]string{"--output", test.given}); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := c.PreRunE(c, nil); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("the error is %q, want %q", got, test.want)
			}
		})
	}
}

// TestEncode: programs get the texts as they are.
func TestEncode(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"json": "{\n  \"why\": \"a < b & c\"\n}\n", "yaml": "why: a < b & c\n"} {
		var b strings.Builder
		f := printing.Format{Name: format}
		if err := f.Encode(&b, map[string]string{"why": "a < b & c"}); err != nil || b.String() != want {
			t.Errorf("Encode as %s = %q (%v), want %q", format, b.String(), err, want)
		}
	}
}

// TestTable: columns are aligned, and no cell becomes another cell or row.
func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := printing.Table(&b, 2, [][]string{{"NAME", "WHY"}, {"a long name", "x\ty\nz\x1b"}, {"b", ""}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "NAME         WHY\na long name  x\\ty\\nz\\x1b\nb            \n"; got != want {
		t.Errorf("Table = %q, want %q", got, want)
	}
}

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

func TestUnified(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after []byte
		want          string
	}{
		"equal texts have no diff":        {before: []byte("a\n"), after: []byte("a\n"), want: ""},
		"equal bytes have no diff":        {before: []byte{0xff, 0}, after: []byte{0xff, 0}, want: ""},
		"two that do not exist are equal": {want: ""},
		"two empty ones are equal":        {before: []byte{}, after: []byte{}, want: ""},
		"lines are shown with three around them": {
			before: []byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), after: []byte("1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
			want: "--- old\n+++ new\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
		},
		"a missing end of the last line is shown": {
			before: []byte("a\n"), after: []byte("a"),
			want: "--- old\n+++ new\n@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n",
		},
		"what is added is against nothing": {
			after: []byte("a\n"), want: "--- /dev/null\n+++ new\n@@ -0,0 +1,1 @@\n+a\n",
		},
		"what is removed is against nothing": {
			before: []byte("a\n"), want: "--- old\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n",
		},
		"an empty file is more than none": {after: []byte{}, want: "--- /dev/null\n+++ new\nadded, 0 bytes\n"},
		"of binary data the size is shown": {
			before: []byte{0xff}, after: []byte("text\n"), want: "--- old\n+++ new\nchanged, 1 byte -> 5 bytes\n",
		},
		"a zero byte is binary data": {
			before: []byte("a"), after: []byte("a\x00b"), want: "--- old\n+++ new\nchanged, 1 byte -> 3 bytes\n",
		},
	} {
		got := printing.Unified("old", "new", test.before, test.after)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: diff (-want +got):\n%s", name, diff)
		}
	}
}

func TestMasked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after []byte
		want          string
	}{
		"equal ones have no diff":     {before: []byte("hush"), after: []byte("hush"), want: ""},
		"a change is shown by sizes":  {before: []byte("hush-hush-12"), after: []byte("hush-hush-1234"), want: "--- old\n+++ new\nchanged, 12 bytes -> 14 bytes\n"},
		"a change of the same size":   {before: []byte("hush"), after: []byte("hish"), want: "--- old\n+++ new\nchanged, 4 bytes -> 4 bytes\n"},
		"what is added has a size":    {after: []byte("hush"), want: "--- /dev/null\n+++ new\nadded, 4 bytes\n"},
		"what is removed has a size":  {before: []byte("hush"), want: "--- old\n+++ /dev/null\nremoved, 4 bytes\n"},
		"an empty one is not nothing": {before: []byte{}, want: "--- old\n+++ /dev/null\nremoved, 0 bytes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := printing.Masked("old", "new", test.before, test.after)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("diff (-want +got):\n%s", diff)
			}
			if strings.Contains(got, "hush") {
				t.Error("it shows what is secret")
			}
		})
	}
}

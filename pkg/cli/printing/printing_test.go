package printing_test

import (
	"strings"
	"testing"

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

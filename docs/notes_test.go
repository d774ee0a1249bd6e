package docs

import (
	"strings"
	"testing"
)

func TestShorten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("words ", 40)
	tests := map[string]struct{ text, want string }{
		"a short text stays":                       {"Short.", "Short."},
		"a text that just fits stays":              {strings.Repeat("a", mostInCell), strings.Repeat("a", mostInCell)},
		"a long text ends after a sentence":        {"One sentence. Two. " + long, "One sentence. Two. …"},
		"a clause is better than a word":           {"One clause: " + long, "One clause: …"},
		"a word is better than nothing":            {strings.Repeat("a", 100) + " " + strings.Repeat("b", 100), strings.Repeat("a", 100) + " …"},
		"code is not broken":                       {"Type this. `a. b " + strings.Repeat("b", 200) + "`", "Type this. …"},
		"a link is not broken":                     {"Read this. [a. b](" + strings.Repeat("b", 200) + ")", "Read this. …"},
		"a single long piece of code stands alone": {"`" + strings.Repeat("b", 200) + "`", "see below"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := shorten(tc.text); got != tc.want {
				t.Errorf("shorten(%q) = %q, want %q", tc.text, got, tc.want)
			}
		})
	}
}

// TestNotesBelowATable: a long text stands below the table in full, once for all rows that have it, and is not read as a row.
func TestNotesBelowATable(t *testing.T) {
	t.Parallel()
	long := "Begins here. " + strings.Repeat("words ", 40) + "ends here."
	table := Table{Columns: []string{"flag", "meaning"}, Rows: [][]string{{"`-a`", long}, {"`-b`", "Short."}, {"`-c`", long}}}
	text := table.format(nil)
	for _, want := range []string{"| `-a` | Begins here. … |\n", "| `-b` | Short. |\n", "\n- `-a`, `-c`: Begins here. words"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not have %q:\n%s", want, text)
		}
	}
	if got := strings.Count(strings.Join(strings.Fields(text), " "), "ends here."); got != 1 {
		t.Errorf("the long text stands %d times below the table, want 1", got)
	}
	if rows := (part{table: text}).rows(); len(rows) != 5 {
		t.Errorf("the table has the lines %q, want 5", rows)
	}
}

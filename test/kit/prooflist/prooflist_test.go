package prooflist

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// list is one of two kinds.
func list() List { return List{Kinds: []Kind{{"rule", 61}, {"trap", 15}}, Excuse: "not ours"} }

func rule(n int) Number { return Number{"rule", n} }

func trap(n int) Number { return Number{"trap", n} }

func TestMentions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in      string
		want    []Number
		wantErr string
	}{
		"no text":                        {in: ""},
		"a word without a number":        {in: "no rule yet, and a trap"},
		"a word that ends like one":      {in: "ferrule 7, overrules 7"},
		"one rule":                       {in: `"rule 7: only absence is forgiven"`, want: []Number{rule(7)}},
		"at the beginning of a sentence": {in: "Rule 7 and Trap 2.", want: []Number{rule(7), trap(2)}},
		"the singular takes one number":  {in: "rule 24, 255 bytes", want: []Number{rule(24)}},
		"a list":                         {in: "rules 3, 5 and 7", want: []Number{rule(3), rule(5), rule(7)}},
		"a range":                        {in: "rules 39 to 41", want: []Number{rule(39), rule(40), rule(41)}},
		"a list with a range": {
			in: "(rules 1, 3 to 5 and 61)", want: []Number{rule(1), rule(3), rule(4), rule(5), rule(61)},
		},
		"traps":                         {in: "traps 1 and 15", want: []Number{trap(1), trap(15)}},
		"both":                          {in: "rule 49, trap 13", want: []Number{rule(49), trap(13)}},
		"broken over lines":             {in: "// this is rule\n\t// 19, and rules 3\n// to 5", want: []Number{rule(19), rule(3), rule(4), rule(5)}},
		"broken over lines of a string": {in: "rules 3,\n  5", want: []Number{rule(3), rule(5)}},
		"no such rule":                  {in: "rule 62", wantErr: "there is no number 62"},
		"rule nought":                   {in: "rule 0", wantErr: "there is no rule 0"},
		"no such trap":                  {in: "trap 16", wantErr: "there is no trap 16"},
		"a range that goes down":        {in: "rules 44 to 39", wantErr: `the range "44 to 39" does not go up`},
		"a range of one":                {in: "rules 44 to 44", wantErr: `the range "44 to 44" does not go up`},
		"a range out of bounds":         {in: "rules 1 to 4000000000", wantErr: "there is no number 4000000000"},
		"a range of a range":            {in: "rules 1 to 3 to 5", wantErr: `"1 to 3 to 5" is no number and no range`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := list().mentions(tt.in)
			checkError(t, err, tt.wantErr)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mentions(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

// checkError wants an error that ends in the text, or none for no text.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil && want != "":
		t.Errorf("error = nil, want one that ends in %q", want)
	case err != nil && (want == "" || !strings.HasSuffix(err.Error(), want)):
		t.Errorf("error = %v, want one that ends in %q", err, want)
	}
}

func TestParseTable(t *testing.T) {
	t.Parallel()
	const head = "# Rules\n\n| number | what holds | tests |\n|---|---|---|\n"
	tests := map[string]struct {
		in      string
		want    []Row
		wantErr string
	}{
		"rows of every form": {
			in: head + "| 7 | so it is | `pkg/api.TestParse/rule 7: a name, and more`, `test/kit/node.TestNode` |\n" +
				"| trap 2 | not ours | |\n\ntext\n",
			want: []Row{
				{rule(7), "so it is", []Reference{
					{"pkg/api", "TestParse", "rule 7: a name, and more"}, {Folder: "test/kit/node", Function: "TestNode"},
				}},
				{Number: trap(2), Text: "not ours"},
			},
		},
		"no table":              {in: "# Rules\n", wantErr: "there is no table"},
		"a table without rows":  {in: head, wantErr: "there is no table"},
		"two cells":             {in: head + "| 7 | so it is |\n", wantErr: "line 5: 2 cells, want 3: number, what holds, tests"},
		"a bar in a cell":       {in: head + "| 7 | so | it is | |\n", wantErr: "line 5: 4 cells, want 3: number, what holds, tests"},
		"a word for a number":   {in: head + "| seven | so it is | |\n", wantErr: `line 5: number "seven": want 7, or trap 7`},
		"a range for a number":  {in: head + "| 7 to 9 | so it is | |\n", wantErr: `line 5: number "7 to 9": want 7, or trap 7`},
		"a padded number":       {in: head + "| 07 | so it is | |\n", wantErr: `line 5: number "07": want 7, or trap 7`},
		"a test without quotes": {in: head + "| 7 | a | pkg/api.TestA |\n", wantErr: "test pkg/api.TestA: want `pkg/files/projection.TestBuild`, or with /a subtest"},
		"a test without folder": {in: head + "| 7 | a | `TestA` |\n", wantErr: "test `TestA`: want `pkg/files/projection.TestBuild`, or with /a subtest"},
		"a test out of folders": {in: head + "| 7 | a | `../x.TestA` |\n", wantErr: "test `../x.TestA`: want `pkg/files/projection.TestBuild`, or with /a subtest"},
		"a helper for a test":   {in: head + "| 7 | a | `pkg/api.parse` |\n", wantErr: "test `pkg/api.parse`: want `pkg/files/projection.TestBuild`, or with /a subtest"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := list().parseTable(tt.in)
			checkError(t, err, tt.wantErr)
			if diff := cmp.Diff(tt.want, got); tt.wantErr == "" && diff != "" {
				t.Errorf("parseTable (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChecksFindWhatIsWrong gives the checks bad tables and bad tests: a check that cannot fail is none.
func TestChecksFindWhatIsWrong(t *testing.T) {
	t.Parallel()
	whole := func(change func(map[Number]Row)) (table []Row) {
		rows := map[Number]Row{}
		for _, n := range list().everyNumber() {
			rows[n] = Row{Number: n, Text: "not ours: nothing here"}
		}
		change(rows)
		return slices.Collect(maps.Values(rows))
	}
	tests := map[string]struct {
		table []Row
		want  []string
	}{
		"nothing": {whole(func(map[Number]Row) {}), nil},
		"a rule is missing": {
			whole(func(rows map[Number]Row) { delete(rows, rule(7)) }), []string{"rule 7 is there 0 times, want once"},
		},
		"a trap is missing": {
			whole(func(rows map[Number]Row) { delete(rows, trap(15)) }), []string{"trap 15 is there 0 times, want once"},
		},
		"a rule is there twice": {
			append(whole(func(map[Number]Row) {}), Row{Number: rule(7), Text: "not ours"}),
			[]string{"rule 7 is there 2 times, want once"},
		},
		"a number too many": {
			whole(func(rows map[Number]Row) { rows[rule(62)] = Row{Number: rule(62), Text: "not ours"} }),
			[]string{"rule 62 is not a number that there is"},
		},
		"no text": {
			whole(func(rows map[Number]Row) { rows[rule(7)] = Row{Number: rule(7)} }), []string{"rule 7 says nothing"},
		},
		"no test": {
			whole(func(rows map[Number]Row) { rows[trap(7)] = Row{Number: trap(7), Text: "it is so"} }),
			[]string{`trap 7 names no test and does not say "not ours"`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, list().CheckTable(tt.table)); diff != "" {
				t.Errorf("CheckTable (-want +got):\n%s", diff)
			}
		})
	}
}

const someTests = `package some

// TestDoc is rule 7, and rules 39
// to 41.
func TestDoc() {}

func TestTable() {
	_ = map[string]int{"rule 8: a case": 1}
	// trap 3
}

// TestNothing names nothing.
func TestNothing() {}

// helper is rule 9.
func helper() {}

type some struct{}

// TestMethod is rule 9.
func (some) TestMethod() {}
`

func TestChecksLookIntoTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "pkg", "some"), 0o700),
		os.MkdirAll(filepath.Join(dir, "pkg", "bad"), 0o700),
		os.WriteFile(filepath.Join(dir, "pkg", "some", "some_test.go"), []byte(someTests), 0o600),
		os.WriteFile(filepath.Join(dir, "pkg", "bad", "bad_test.go"), []byte("package bad\n// TestBad is rule 99.\nfunc TestBad() {}"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		number Number
		test   string
		want   string // Empty for nothing wrong.
	}{
		"a doc comment names it":            {rule(7), "pkg/some.TestDoc", ""},
		"a doc comment names its range":     {rule(40), "pkg/some.TestDoc", ""},
		"a table names it":                  {rule(8), "pkg/some.TestTable", ""},
		"a subtest names it":                {rule(8), "pkg/some.TestTable/rule 8: a case", ""},
		"a comment in the body names it":    {trap(3), "pkg/some.TestTable", ""},
		"a trap is no rule":                 {rule(3), "pkg/some.TestTable", "rule 3 names pkg/some.TestTable, which does not name rule 3"},
		"the test names nothing":            {rule(9), "pkg/some.TestNothing", "rule 9 names pkg/some.TestNothing, which does not name rule 9"},
		"the test is not there":             {rule(7), "pkg/some.TestNone", "rule 7 names pkg/some.TestNone, which is not there"},
		"the test is a method":              {rule(9), "pkg/some.TestMethod", "rule 9 names pkg/some.TestMethod, which is not there"},
		"the subtest is not there":          {rule(8), "pkg/some.TestTable/rule 8: b case", "rule 8 names pkg/some.TestTable/rule 8: b case, which has no such subtest"},
		"the test names what there is not":  {rule(7), "pkg/bad.TestBad", `pkg/bad.TestBad: "rule 99": there is no number 99`},
		"the folder is not there":           {rule(7), "pkg/none.TestDoc", "rule 7 names pkg/none.TestDoc: the folder has no tests"},
		"another test names what there not": {rule(9), "pkg/some.TestDoc", "rule 9 names pkg/some.TestDoc, which does not name rule 9"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			references, err := parseReferences("`" + tt.test + "`")
			if err != nil {
				t.Fatal(err)
			}
			got := list().CheckTests(dir, []Row{{Number: tt.number, Tests: references}})
			if len(got) > 0 && got[0] == tt.want || len(got) == 0 && tt.want == "" {
				return
			}
			t.Errorf("CheckTests = %q, want %q first", got, tt.want)
		})
	}
}

func TestReadOfAListThatIsNotThere(t *testing.T) {
	t.Parallel()
	if _, err := list().Read(filepath.Join(t.TempDir(), "RULES.md")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read = %v, want %v", err, fs.ErrNotExist)
	}
}

func TestOneKindNeedsNoWordInTheTable(t *testing.T) {
	t.Parallel()
	faults := List{Kinds: []Kind{{"fault", 36}}, Excuse: "not yet"}
	_, err := faults.parseTable("| trap 7 | not yet | |\n")
	checkError(t, err, `line 1: number "trap 7": want 7`)
	got, err := faults.mentions("rule 99 is another list's, fault 36 is not, and a default 77 is none")
	checkError(t, err, "")
	if diff := cmp.Diff([]Number{{"fault", 36}}, got); diff != "" {
		t.Errorf("mentions (-want +got):\n%s", diff)
	}
}

func TestCheckMentionsReadsEveryTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"a/a_test.go": "// rule 7", "a/b/b_test.go": "// rule 99", "a/b/b.go": "// rule 99",
		"bin/c_test.go": "// rule 99", "left/d_test.go": "// rule 99",
	} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	problems, files, err := list().CheckMentions(dir, "left")
	want := []string{filepath.Join(dir, "a/b/b_test.go") + `: "rule 99": there is no number 99`}
	if diff := cmp.Diff(want, problems); diff != "" || files != 2 || err != nil {
		t.Errorf("CheckMentions read %d files, %v, want 2 (-want +got):\n%s", files, err, diff)
	}
}

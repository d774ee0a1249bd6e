// Package docs compares the generated tables of the pages in this folder with the code that they describe.
//
// A test beside the code builds a [Table] and compares it. `make docs` writes the tables. The package does not know what
// a table is about.
package docs

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Table is a generated table of a page. The page may have further columns on the right, which people write.
type Table struct {
	// Page is the file name of a page in this folder.
	Page string
	// Name stands in the comments of the page between which the table is.
	Name string
	// Columns are the headings of the columns that the code fills.
	Columns []string
	// Rows have one cell per column. The first cell is unique if the page has further columns.
	Rows [][]string
	// WrittenBy is the command that writes the table; empty means `make docs`.
	WrittenBy string
}

// Compare fails the test unless the page has this table, and a text in each further column. With LIVECONFIG_UPDATE set it
// writes the table into the page and leaves the further columns as they are.
func (want Table) Compare(t testing.TB) {
	t.Helper()
	page := open(t, want.Page, want.Name)
	generated := want.format(page.rows())
	if page.table != generated && os.Getenv("LIVECONFIG_UPDATE") == "" {
		t.Errorf("docs/%s (-page +code), `%s` writes it:\n%s", want.Page, cmp.Or(want.WrittenBy, "make docs"), gocmp.Diff(page.table, generated))
		return
	}
	if page.table != generated {
		page.replace(t, generated)
	}
	for _, row := range open(t, want.Page, want.Name).rows()[2:] {
		if slices.Contains(row[len(want.Columns):], "") {
			t.Errorf("docs/%s: fill in the last columns of %s, which people write", want.Page, row[0])
		}
	}
}

// Rows returns the cells of a generated table, without its headings.
func Rows(t testing.TB, page, name string) [][]string {
	t.Helper()
	return open(t, page, name).rows()[2:]
}

// Shortened returns rows as [Rows] does: the page has longer texts below its table.
func Shortened(rows [][]string) [][]string {
	short := make([][]string, len(rows))
	for i, row := range rows {
		short[i] = slices.Clone(row)
		for at := 1; at < len(row); at++ {
			short[i][at] = shorten(row[at])
		}
	}
	return short
}

// format returns the table as Markdown, with the further columns of the rows that the page has now.
func (want Table) format(page [][]string) string {
	var further []string
	written := map[string][]string{}
	if len(page) > 2 {
		further = page[0][min(len(want.Columns), len(page[0])):]
		for _, row := range page[2:] {
			written[row[0]] = row[min(len(want.Columns), len(row)):]
		}
	}
	var below notes
	rows := [][]string{slices.Concat(want.Columns, further), slices.Repeat([]string{"---"}, len(want.Columns)+len(further))}
	for _, row := range want.Rows {
		cells := make([]string, len(rows[0]))
		for i, cell := range row {
			text := strings.Join(strings.Fields(cell), " ")
			if short := shorten(text); short != text && i > 0 {
				below.add(row[0], want.Columns[i], text)
				text = short
			}
			cells[i] = strings.ReplaceAll(text, "|", `\|`)
		}
		copy(cells[len(row):], written[cells[0]])
		rows = append(rows, cells)
	}
	var b strings.Builder
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String() + below.String()
}

// part is a page, cut into its table and what surrounds that.
type part struct{ path, before, table, after string }

func open(t testing.TB, page, name string) part {
	t.Helper()
	path := find(t, page)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- table of "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, found := strings.Cut(string(text), begin)
	table, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("docs/%s has no comments %q and %q", page, strings.TrimSpace(begin), end)
	}
	return part{path: path, before: before + begin, table: table, after: end + after}
}

func (p part) replace(t testing.TB, table string) {
	t.Helper()
	if err := os.WriteFile(p.path, []byte(p.before+table+p.after), 0o600); err != nil { //nolint:forbidigo // A page in git.
		t.Fatal(err)
	}
}

// rows returns the cells of all lines: headings, dashes, and the rows.
func (p part) rows() [][]string {
	var rows [][]string
	for line := range strings.Lines(p.table) {
		if !strings.HasPrefix(line, "|") {
			break // The rest are the texts that have no room in a cell.
		}
		line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "| "), " |")
		rows = append(rows, strings.Split(line, " | "))
	}
	return rows
}

// find returns the path of a page from the folder of any package of this repository.
func find(t testing.TB, page string) string {
	t.Helper()
	for dir, up := ".", 0; up < 8; dir, up = filepath.Join(dir, ".."), up+1 {
		path := filepath.Join(dir, "docs", page)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatalf("no folder above this one has docs/%s", page)
	return ""
}

// Flags returns a row for each flag: its name, its usage and its default.
func Flags(flags *flag.FlagSet) [][]string {
	var rows [][]string
	flags.VisitAll(func(f *flag.Flag) { rows = append(rows, Flag(f.Name, f.Usage, f.DefValue)) })
	return rows
}

// Flag returns the row of a flag.
func Flag(name, usage, value string) []string {
	if len(name) > 1 {
		name = "-" + name
	}
	if value = regexp.MustCompile(`([hm])0s$`).ReplaceAllString(value, "$1"); value != "" { // 2m0s is 2m.
		value = "`" + value + "`"
	}
	return []string{"`-" + name + "`", usage, value}
}

// label is the name of a label in a line of a scrape.
var label = regexp.MustCompile(`[{,]([a-z_]+)=`)

// Metrics returns a row for each metric of the project in a scrape: its name with the names of its labels, its type and its
// help. A metric without any series has no row.
func Metrics(scrape string) [][]string {
	help, kind, labels := map[string]string{}, map[string]string{}, map[string][]string{}
	var names []string
	for line := range strings.Lines(scrape) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		switch {
		case len(fields) == 4 && fields[1] == "HELP":
			help[fields[2]] = fields[3]
			names = append(names, fields[2])
		case len(fields) == 4 && fields[1] == "TYPE":
			kind[fields[2]] = fields[3]
		case len(names) > 0:
			last := names[len(names)-1]
			for _, found := range label.FindAllStringSubmatch(line, -1) {
				if found[1] != "le" && !slices.Contains(labels[last], found[1]) {
					labels[last] = append(labels[last], found[1])
				}
			}
		}
	}
	var rows [][]string
	for _, name := range names {
		if !strings.HasPrefix(name, "liveconfig_") && !strings.HasPrefix(name, "csi_") {
			continue
		}
		shown := name
		if len(labels[name]) > 0 {
			shown += "{" + strings.Join(labels[name], ",") + "}"
		}
		rows = append(rows, []string{"`" + shown + "`", kind[name], help[name]})
	}
	return rows
}

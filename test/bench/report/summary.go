package report

import (
	"slices"
	"strings"
)

// notMeasured stands for a number that a page does not have, such as that of a part that did not run.
const notMeasured = "not measured in this run"

// Summary is what a page begins with: the numbers that people ask for first, and a picture. It says nothing that the rest of the page
// does not say.
type Summary struct {
	Numbers []Number
	// Picture is the file name of a plot.
	Picture string
}

// Number is one that people ask for, beside that of something else.
type Number struct {
	What string
	Ours []Cell
	// Other says what the number is compared with, and Theirs where it is. Empty: nothing.
	Other  string
	Theirs []Cell
}

// Cell is a place in a table of a page.
type Cell struct {
	// Table is how the heading of the table begins.
	Table string
	// Row is how the row begins, with " | " between its cells.
	Row string
	// Column is the name of the column.
	Column string
}

// Markdown returns the summary of a page, which has plots in a folder.
func (s Summary) Markdown(page, plots string) string {
	if len(s.Numbers) == 0 {
		return ""
	}
	var p markdown
	p.print("\n## In short\n")
	rows := make([][]string, 0, len(s.Numbers))
	for _, n := range s.Numbers {
		beside := "–"
		if n.Other != "" {
			beside = n.Other + ": " + textOf(n.Theirs, page)
		}
		rows = append(rows, []string{n.What, textOf(n.Ours, page), beside})
	}
	p.table([]string{"what", "liveconfig", "beside it"}, rows)
	if link := "(" + plots + "/" + s.Picture + ")"; strings.Contains(page, link) {
		p.print("\n![How many edits were in the volume after so long]%s\n", link)
	}
	return p.String()
}

// textOf returns the text of cells of a page, or that one of them is not there.
func textOf(cells []Cell, page string) string {
	texts := make([]string, 0, len(cells))
	for _, c := range cells {
		text := c.in(page)
		if text == "" {
			return notMeasured
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// in returns the text of the cell, and nothing if the page does not have it.
func (c Cell) in(page string) string {
	_, table, _ := strings.Cut(page, "\n### "+c.Table)
	table, _, _ = strings.Cut(table, "\n#")
	column := -1
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |\n"), " | ")
		if column < 0 {
			column = slices.Index(cells, c.Column)
			continue
		}
		if strings.HasPrefix(line, "| "+c.Row+" | ") && column < len(cells) {
			return cells[column]
		}
	}
	return ""
}

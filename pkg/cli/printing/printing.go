// Package printing prints for people and for programs: tables, lists of names, JSON, YAML and
// objects. It has --output and --dry-run, and escapes what a terminal would obey.
//
// It does not know what is printed.
package printing

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Table writes rows with aligned columns that have some spaces between them. Each cell stays in its
// place, whatever is in it.
func Table(to io.Writer, spaces int, rows [][]string) error {
	table := tabwriter.NewWriter(to, 0, 0, spaces, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(PlainLine(cell), "\t", `\t`)
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // Flush returns the error.
	}
	return table.Flush()
}

// Time prints a time as the API does.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Names names one thing or a few, and counts many.
func Names(names []string, one, many string) string {
	const most = 5
	switch {
	case len(names) == 1:
		return one + " " + names[0]
	case len(names) <= most:
		return many + " " + strings.Join(names, ", ")
	default:
		return fmt.Sprintf("%d %s (%s and others)", len(names), many, strings.Join(names[:most], ", "))
	}
}

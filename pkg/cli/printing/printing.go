// Package printing prints for people and for programs: cells, lists of names, JSON and YAML, and
// texts that a terminal can show.
//
// It does not know what is printed.
package printing

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Cells writes to a table, whose Flush returns the error. Texts stay in their cells, whatever is in
// them.
func Cells(to io.Writer, format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = strings.ReplaceAll(PlainLine(text), "\t", `\t`)
		}
	}
	_, _ = fmt.Fprintf(to, format, args...)
}

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

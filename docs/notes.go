package docs

import (
	"strings"
)

// mostInCell is the number of characters that somebody reads in a cell. Longer texts stand in full below the table.
const mostInCell = 160

// shorten returns a text that fits into a cell: the text itself, or its beginning up to the end of a sentence or, without one,
// of a word.
func shorten(text string) string {
	const more = " …"
	letters := []rune(text)
	if len(letters) <= mostInCell {
		return text
	}
	room := string(letters[:mostInCell-len([]rune(more))])
	for _, end := range []string{". ", "; ", ": ", ", ", " "} {
		for at := strings.LastIndex(room, end); at > 0; at = strings.LastIndex(room[:at], end) {
			if begin := room[:at] + strings.TrimRight(end, " ,"); isWhole(begin) {
				return begin + more
			}
		}
	}
	return "see below"
}

// isWhole reports whether a beginning of a text breaks no code and no link.
func isWhole(text string) bool {
	return strings.Count(text, "`")%2 == 0 &&
		strings.Count(text, "[") == strings.Count(text, "]") &&
		strings.Count(text, "(") == strings.Count(text, ")") &&
		strings.Count(text, "{") == strings.Count(text, "}")
}

// note is a text that has no room in a cell, with the cells that it belongs to.
type note struct {
	of   []string
	text string
}

// notes are those of a table.
type notes []note

// add remembers the text of a cell. Cells with one text have one note.
func (all *notes) add(row, column, text string) {
	of := row
	if column != "meaning" {
		of += " (" + column + ")"
	}
	for i := range *all {
		if same := &(*all)[i]; same.text == text {
			same.of = append(same.of, of)
			return
		}
	}
	*all = append(*all, note{of: []string{of}, text: text})
}

// String returns the notes as a list, in lines of at most 100 characters if the words allow that.
func (all notes) String() string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nIn full:\n\n")
	for _, n := range all {
		line := "-"
		for word := range strings.FieldsSeq(strings.Join(n.of, ", ") + ": " + n.text) {
			if len([]rune(line))+1+len([]rune(word)) > 100 {
				b.WriteString(line + "\n")
				line = " "
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

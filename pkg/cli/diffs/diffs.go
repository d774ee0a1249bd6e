// Package diffs shows how one text differs from another: with its lines, or by its size alone where
// the lines are secret.
//
// It does not know files, objects, or what is secret.
package diffs

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
)

// None is the name of a side that does not exist.
const None = "/dev/null"

// Unified returns a unified diff of two texts, and "" if they are equal. A nil text does not exist,
// which is another thing than an empty one, and its name is [None]. Of binary data only sizes are
// shown.
func Unified(oldName, newName string, before, after []byte) string {
	if isText(before) && isText(after) && len(before)+len(after) > 0 {
		oldName, newName = names(oldName, newName, before, after)
		_, text, _ := bytes.Cut(diff.Diff(oldName, before, newName, after), []byte("\n")) // The first line is a command.
		return string(text)
	}
	return Masked(oldName, newName, before, after)
}

// Masked is [Unified] without the lines: it shows sizes, and no byte of the texts.
func Masked(oldName, newName string, before, after []byte) string {
	if bytes.Equal(before, after) && (before == nil) == (after == nil) {
		return ""
	}
	oldName, newName = names(oldName, newName, before, after)
	return fmt.Sprintf("--- %s\n+++ %s\n%s\n", oldName, newName, sizes(before, after))
}

// Differ returns a diff of two texts by their names.
type Differ func(oldName, newName string, before, after []byte) string

// names returns the names as a header has them.
func names(oldName, newName string, before, after []byte) (shownOld, shownNew string) {
	if before == nil {
		oldName = None
	}
	if after == nil {
		newName = None
	}
	return oldName, newName
}

func sizes(before, after []byte) string {
	switch {
	case before == nil:
		return "added, " + bytesOf(after)
	case after == nil:
		return "removed, " + bytesOf(before)
	default:
		return fmt.Sprintf("changed, %s -> %s", bytesOf(before), bytesOf(after))
	}
}

func bytesOf(text []byte) string {
	if len(text) == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", len(text))
}

// isText reports whether a terminal can show it.
func isText(text []byte) bool { return utf8.Valid(text) && !bytes.ContainsRune(text, 0) }

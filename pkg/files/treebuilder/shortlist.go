package treebuilder

import (
	"fmt"
	"slices"
)

// mostCounted is how many texts a [shortList] counts exactly.
const mostCounted = 1000

// shortList are texts, each once, of which only the first are wanted: there can be one for each of
// very many keys. The zero value is empty.
type shortList struct {
	texts  []string // Not sorted, some of them several times.
	isMore bool     // There were too many to count.
}

func (l *shortList) add(text string) {
	l.texts = append(l.texts, text)
	if len(l.texts) > 2*mostCounted {
		l.compact()
	}
}

// compact sorts the texts, and drops all but the first if there are too many to count.
func (l *shortList) compact() {
	slices.Sort(l.texts)
	l.texts = slices.Compact(l.texts)
	if len(l.texts) > mostCounted {
		l.isMore = true
		clear(l.texts[maxProblems:])
		l.texts = l.texts[:maxProblems]
	}
}

// list returns the first texts, sorted, and a last one that counts the rest. The list is the
// caller's.
func (l shortList) list() []string {
	l.texts = slices.Clone(l.texts)
	l.compact()
	more := len(l.texts) - maxProblems
	switch {
	case l.isMore:
		return append(l.texts[:maxProblems], fmt.Sprintf("and more than %d more", mostCounted-maxProblems))
	case more > 0:
		return append(l.texts[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return l.texts
}

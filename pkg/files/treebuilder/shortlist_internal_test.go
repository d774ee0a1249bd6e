package treebuilder

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestShortListInAnyOrder: the keys of an object come in any order, and the same texts must make the same Event.
func TestShortListInAnyOrder(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]string{
		1: "text 00000", 20: "text 00019", 21: "and 1 more", mostCounted: "and 980 more",
		mostCounted + 1: "and more than 980 more", 3 * mostCounted: "and more than 980 more", 10 * mostCounted: "and more than 980 more",
	} {
		for seed := range uint64(5) {
			var texts []string
			for i := range 2 * count { // Each twice.
				texts = append(texts, fmt.Sprintf("text %05d", i/2))
			}
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
			var l shortList
			for _, text := range texts {
				l.add(text)
			}
			all := l.list()
			if len(l.texts) > 2*mostCounted || len(all) > maxProblems+1 {
				t.Errorf("%d texts: %d are stored and %d listed, want few", count, len(l.texts), len(all))
			}
			if last := all[len(all)-1]; last != want || all[0] != "text 00000" {
				t.Errorf("%d texts, seed %d: from %q to %q, want to %q", count, seed, all[0], last, want)
			}
		}
	}
	if got := (shortList{}).list(); got != nil {
		t.Errorf("no texts make %q", got)
	}
}

// TestShortListSortsSeldom: a list that is sorted for each text would take minutes for very many keys.
func TestShortListSortsSeldom(t *testing.T) {
	t.Parallel()
	var l shortList
	for range 2 * mostCounted {
		l.add("text")
	}
	if len(l.texts) != 2*mostCounted {
		t.Errorf("the list has %d texts, want all %d before it is sorted", len(l.texts), 2*mostCounted)
	}
	l.add("text")
	if len(l.texts) != 1 {
		t.Errorf("the list has %d texts after it was sorted, want 1", len(l.texts))
	}
}

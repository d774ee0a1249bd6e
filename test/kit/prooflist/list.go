// Package prooflist holds a list of numbered promises to the tests that prove them: each number is in the list once, and
// each test that the list names is there and names the number in turn.
//
// It does not know what the promises say, nor whether a test proves one: that is for people to read.
package prooflist

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is one sort of promise, numbered from 1.
type Kind struct {
	// Word is what a test calls it, in lower case: rule, for «rule 7» and «rules 3 to 5».
	Word string
	// Last is the highest number there is.
	Last int
}

// List says what a list of promises is made of.
type List struct {
	// Kinds has one element at least. A number that stands alone in the table is of the first one, others have the word
	// before them.
	Kinds []Kind
	// Excuse is what a row without a test has to say. Empty: each row has a test.
	Excuse string
}

// Number is that of a promise.
type Number struct {
	Word string
	N    int
}

// String is how tests name the number.
func (n Number) String() string { return fmt.Sprintf("%s %d", n.Word, n.N) }

// Row is one line of the table.
type Row struct {
	Number Number
	Text   string
	Tests  []Reference
}

// Reference names a test function: pkg/files/projection.TestBuild, perhaps with one of its subtests.
type Reference struct{ Folder, Function, Subtest string }

// String is how the table names the test.
func (r Reference) String() string {
	if r.Subtest != "" {
		return r.Folder + "." + r.Function + "/" + r.Subtest
	}
	return r.Folder + "." + r.Function
}

// exists tells whether there is such a number.
func (l List) exists(n Number) bool {
	return slices.ContainsFunc(l.Kinds, func(k Kind) bool { return k.Word == n.Word && n.N >= 1 && n.N <= k.Last })
}

// everyNumber returns all numbers that there are.
func (l List) everyNumber() (all []Number) {
	for _, kind := range l.Kinds {
		for n := 1; n <= kind.Last; n++ {
			all = append(all, Number{kind.Word, n})
		}
	}
	return all
}

// last returns the highest number of any kind.
func (l List) last() (last int) {
	for _, kind := range l.Kinds {
		last = max(last, kind.Last)
	}
	return last
}

// CheckTable returns what is wrong with the rows, without a look at any test.
func (l List) CheckTable(table []Row) (problems []string) {
	count := map[Number]int{}
	for _, r := range table {
		count[r.Number]++
		switch {
		case r.Text == "":
			problems = append(problems, fmt.Sprintf("%s says nothing", r.Number))
		case len(r.Tests) == 0 && l.Excuse == "":
			problems = append(problems, fmt.Sprintf("%s names no test", r.Number))
		case len(r.Tests) == 0 && !strings.Contains(r.Text, l.Excuse):
			problems = append(problems, fmt.Sprintf("%s names no test and does not say %q", r.Number, l.Excuse))
		}
	}
	for _, n := range l.everyNumber() {
		if count[n] != 1 {
			problems = append(problems, fmt.Sprintf("%s is there %d times, want once", n, count[n]))
		}
		delete(count, n)
	}
	for n := range count {
		problems = append(problems, fmt.Sprintf("%s is not a number that there is", n))
	}
	slices.Sort(problems)
	return problems
}

// Package report holds what a benchmark has measured, judges it by targets, and writes it down: a page of tables, plots as
// SVG, and the raw data.
//
// It does not know what was measured, nor how.
package report

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"
)

// Result is all that one run of the benchmark has to tell.
type Result struct {
	// Begun is when the run began, and Took how long it was.
	Begun time.Time     `json:"begun"`
	Took  time.Duration `json:"tookNanoseconds"`
	// Quick says that the run was a short one, whose figures are indications.
	Quick bool `json:"quick"`
	// Summary says which numbers the page begins with.
	Summary Summary `json:"-"`
	// Facts are about the machine and the versions of what ran on it.
	Facts    []Fact    `json:"facts"`
	Targets  []Target  `json:"targets"`
	Sections []Section `json:"sections"`
}

// Fact is a thing to know about a run.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Section is about one of the questions that a benchmark asks.
type Section struct {
	// Key names its files.
	Key   string `json:"key"`
	Title string `json:"title"`
	// Text says what was measured. It may have several paragraphs.
	Text   string  `json:"text"`
	Groups []Group `json:"groups,omitempty"`
	Tables []Table `json:"tables,omitempty"`
	Charts []Chart `json:"charts,omitempty"`
	// Notes say what is not comparable with what, and why.
	Notes []string `json:"notes,omitempty"`
	// Files are what has no place on the page.
	Files []File `json:"files,omitempty"`
}

// File is a text beside the page, which links it.
type File struct {
	// Name is the file's, in the folder of its section.
	Name  string `json:"name"`
	Title string `json:"title"`
	Text  string `json:"-"`
}

// Group is a set of series that are looked at side by side: one table and one plot of their distributions.
type Group struct {
	// Key names its plot. Empty: none is made.
	Key   string `json:"key,omitempty"`
	Title string `json:"title"`
	// Floor is the key of the series that the others are divided by.
	Floor  string   `json:"floor,omitempty"`
	Series []Series `json:"series"`
}

// floor returns the series that others are compared with, if there is one.
func (g Group) floor() (Series, bool) {
	for _, s := range g.Series {
		if s.Key == g.Floor {
			return s, true
		}
	}
	return Series{}, false
}

// Table is for what has no distribution. All rows are as long as the header.
type Table struct {
	Title  string     `json:"title"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
}

// Chart is a plot of figures against a number.
type Chart struct {
	Key    string  `json:"key"`
	Title  string  `json:"title"`
	X      string  `json:"x"`
	Y      string  `json:"y"`
	Curves []Curve `json:"curves"`
}

// Curve is a line in a [Chart].
type Curve struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Point is one of a [Curve].
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Target is a figure that was to be reached.
type Target struct {
	// Key is what remarks know it by.
	Key  string `json:"key"`
	What string `json:"what"`
	// Value is the median of the runs, if there are several.
	Value float64 `json:"value"`
	// Bound is the largest value that will do, or the smallest if it is AtLeast.
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"atLeast,omitempty"`
	// Unit follows the figures on the page. Empty for a ratio.
	Unit string `json:"unit,omitempty"`
	// Remark says what bounds the figure. The page has it where the target is not reached.
	Remark string `json:"remark,omitempty"`
}

// MarshalJSON encodes a value that is not a number, which nothing reaches, as null: JSON has none.
func (t Target) MarshalJSON() ([]byte, error) {
	type plain Target // Without this method.
	if !math.IsNaN(t.Value) && !math.IsInf(t.Value, 0) {
		return json.Marshal(plain(t))
	}
	return json.Marshal(struct {
		plain

		Value *float64 `json:"value"`
	}{plain: plain(t)})
}

// Reached reports whether the value will do.
func (t Target) Reached() bool {
	if t.AtLeast {
		return t.Value >= t.Bound
	}
	return t.Value <= t.Bound
}

// Remark gives the targets what people have written about them, by their keys, and returns the keys that no target has.
func (r Result) Remark(byKey map[string]string) []string {
	left := maps.Clone(byKey)
	for i := range r.Targets {
		t := &r.Targets[i]
		t.Remark = byKey[t.Key]
		delete(left, t.Key)
	}
	return slices.Sorted(maps.Keys(left))
}

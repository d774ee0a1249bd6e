package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	t.Parallel()
	const source = "package p\n\nfunc f(a, b int) bool { return a >= b && a != 0 }\n"
	tests := map[string]struct {
		mutant  mutant
		want    string
		wantErr string
	}{
		"a comparison": {
			mutant: mutant{line: 3, column: 34, kind: "CONDITIONALS_NEGATION"},
			want:   "package p\n\nfunc f(a, b int) bool { return a < b && a != 0 }\n",
		},
		"its boundary": {
			mutant: mutant{line: 3, column: 34, kind: "CONDITIONALS_BOUNDARY"},
			want:   "package p\n\nfunc f(a, b int) bool { return a > b && a != 0 }\n",
		},
		"and": {
			mutant: mutant{line: 3, column: 39, kind: "INVERT_LOGICAL"},
			want:   "package p\n\nfunc f(a, b int) bool { return a >= b || a != 0 }\n",
		},
		"another kind": {
			mutant:  mutant{file: "p.go", line: 3, column: 39, kind: "INVERT_NEGATIVES"},
			wantErr: "p.go:3:39 has no code that INVERT_NEGATIVES changes",
		},
		"behind the end": {mutant: mutant{file: "p.go", line: 9, column: 1, kind: "INVERT_LOGICAL"}, wantErr: "p.go has no 9:1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.mutant.apply([]byte(source))
			if string(got) != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && err.Error() != tt.wantErr {
				t.Errorf("apply() = %q, %v, want %q, %q", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestParseMutants(t *testing.T) {
	t.Parallel()
	const list = `{"files": [
		{"file_name": "b.go", "mutations": [{"type": "INVERT_LOGICAL", "status": "RUNNABLE", "line": 7, "column": 2}]},
		{"file_name": "below/c.go", "mutations": [{"type": "INVERT_LOGICAL", "line": 1, "column": 1}]},
		{"file_name": "a.go", "mutations": [{"type": "ARITHMETIC_BASE", "status": "NOT COVERED", "line": 9, "column": 1}]}]}`
	got, err := parseMutants([]byte(list), "pkg/p")
	want := []*mutant{
		{file: "pkg/p/a.go", line: 9, column: 1, kind: "ARITHMETIC_BASE"},
		{file: "pkg/p/b.go", line: 7, column: 2, kind: "INVERT_LOGICAL"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mutant{})); diff != "" || err != nil {
		t.Errorf("parseMutants() error %v (-want +got):\n%s", err, diff)
	}
	if _, err := parseMutants([]byte(`{"files": [{"file_name": "a.go", "mutations": [{"type": "NEW"}]}]}`), "p"); err == nil {
		t.Error("parseMutants() takes a kind that apply does not know")
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	var all []*mutant
	for i := range 100 {
		all = append(all, &mutant{line: i})
	}
	first := sample(all, 10, 1)
	switch {
	case len(first) != 10:
		t.Errorf("sample() has %d mutants, want 10", len(first))
	case !slices.IsSortedFunc(first, func(a, b *mutant) int { return a.line - b.line }):
		t.Error("sample() is not in order")
	case !slices.Equal(first, sample(all, 10, 1)):
		t.Error("sample() with the same seed draws other mutants")
	case slices.Equal(first, sample(all, 10, 2)):
		t.Error("sample() with another seed draws the same mutants")
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	r := count([]*mutant{{outcome: noticed}, {outcome: noticed}, {outcome: survived}, {outcome: invalid}})
	if r.score() != 66 {
		t.Errorf("score of %+v = %d, want 66", r, r.score())
	}
}

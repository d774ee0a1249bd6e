// Package rules checks that the tests exist which test/RULES.md and test/FAULTS.md name.
//
// It does not know the content of the rules and faults, nor whether a test proves one. That is for people to read.
package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// repo is the checkout as this package's tests see it.
const repo = "../.."

// TestNamedTestsExist reads the numbered paragraphs of both pages.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile("`([a-z0-9/-]+)\\.(Test\\w+)[/`]")
	for page, least := range map[string]int{"RULES.md": 76, "FAULTS.md": 43} {
		text, err := os.ReadFile(filepath.Join(repo, "test", page))
		if err != nil {
			t.Fatal(err)
		}
		rows := numbered(string(text))
		for _, row := range rows {
			_, tests, _ := strings.Cut(row, "\n\nTests: ")
			named := name.FindAllStringSubmatch(tests, -1)
			if len(named) == 0 && !strings.Contains(row, "not ours") {
				t.Errorf("%s: no test is named in %q", page, row)
			}
			for _, test := range named {
				if !exists(t, test[1], test[2]) {
					t.Errorf("%s names %s.%s, which does not exist", page, test[1], test[2])
				}
			}
		}
		if len(rows) < least {
			t.Errorf("%s has %d numbered paragraphs, want %d or more", page, len(rows), least)
		}
	}
}

// numbered returns the paragraphs that begin with a number, each with those below it, up to the next number or heading.
func numbered(page string) []string {
	begin := regexp.MustCompile(`^\*\*(Trap )?[0-9]+\.\*\* `)
	var all []string
	isOpen := false
	for paragraph := range strings.SplitSeq(page, "\n\n") {
		switch {
		case begin.MatchString(paragraph):
			all, isOpen = append(all, paragraph), true
		case strings.HasPrefix(paragraph, "#"):
			isOpen = false
		case isOpen:
			all[len(all)-1] += "\n\n" + paragraph
		}
	}
	return all
}

// exists reports whether a folder of the repository has a test function.
func exists(t *testing.T, folder, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repo, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+function+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// Package rules checks that the tests exist which test/RULES.md and test/FAULTS.md name.
//
// It does not know what the rules and faults say, nor whether a test proves one. That is for people to read.
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

// TestNamedTestsExist reads the rows of both tables.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile("`([a-z0-9/-]+)\\.(Test\\w+)[/`]")
	for page, least := range map[string]int{"RULES.md": 76, "FAULTS.md": 43} {
		text, err := os.ReadFile(filepath.Join(repo, "test", page))
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for row := range strings.Lines(string(text)) {
			if !regexp.MustCompile(`^\| (trap )?[0-9]+ \|`).MatchString(row) {
				continue
			}
			rows++
			named := name.FindAllStringSubmatch(row, -1)
			if len(named) == 0 && !strings.Contains(row, "not ours") {
				t.Errorf("%s: no test is named in %q", page, row)
			}
			for _, test := range named {
				if !exists(t, test[1], test[2]) {
					t.Errorf("%s names %s.%s, which does not exist", page, test[1], test[2])
				}
			}
		}
		if rows < least {
			t.Errorf("%s has %d rows, want %d or more", page, rows, least)
		}
	}
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

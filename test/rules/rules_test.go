// Package rules holds test/RULES.md to the tests: each rule of it is there once, and each test that it names is there
// and names the rule in turn.
//
// It does not know what the rules say, nor whether a test proves one: that is for people to read.
package rules

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// How many rules and traps there are.
const (
	lastRule = 61
	lastTrap = 15
)

// notOurs is what a row without a test has to say.
const notOurs = "not ours"

// repo is the checkout as this package's tests see it.
const repo = "../.."

// TestEveryRuleIsThereOnce reads the table alone.
func TestEveryRuleIsThereOnce(t *testing.T) {
	t.Parallel()
	table, err := readTable(filepath.Join(repo, "test", "RULES.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkTable(table) {
		t.Error(problem)
	}
}

// checkTable returns what is wrong with the rows, without a look at any test.
func checkTable(table []row) (problems []string) {
	count := map[number]int{}
	for _, r := range table {
		count[r.number]++
		switch {
		case r.text == "":
			problems = append(problems, fmt.Sprintf("%s says nothing", r.number))
		case len(r.tests) == 0 && !strings.Contains(r.text, notOurs):
			problems = append(problems, fmt.Sprintf("%s names no test and does not say %q", r.number, notOurs))
		}
	}
	for _, n := range everyNumber() {
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

// TestTestsNameTheirRules looks up each test that the table names.
func TestTestsNameTheirRules(t *testing.T) {
	t.Parallel()
	table, err := readTable(filepath.Join(repo, "test", "RULES.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkTests(repo, table) {
		t.Error(problem)
	}
}

// checkTests returns what is wrong between the rows and the tests below dir.
func checkTests(dir string, table []row) (problems []string) {
	folders := map[string]map[string]string{}
	for _, r := range table {
		for _, test := range r.tests {
			if _, read := folders[test.folder]; !read {
				functions, err := readTests(filepath.Join(dir, test.folder))
				if err != nil {
					problems = append(problems, fmt.Sprintf("%s names %s: %v", r.number, test, err))
				}
				folders[test.folder] = functions
			}
			if problem := checkTest(r.number, test, folders[test.folder]); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	return problems
}

// checkTest returns what is wrong with one test of a row, or nothing. Functions are those of its folder.
func checkTest(n number, test reference, functions map[string]string) string {
	text, found := functions[test.function]
	if !found {
		return fmt.Sprintf("%s names %s, which is not there", n, test)
	}
	named, err := mentions(text)
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %v", test, err)
	case !slices.Contains(named, n):
		return fmt.Sprintf("%s names %s, which does not name %s", n, test, n)
	case test.subtest != "" && !strings.Contains(text, `"`+test.subtest+`"`):
		return fmt.Sprintf("%s names %s, which has no such subtest", n, test)
	}
	return ""
}

// TestNoTestNamesAnUnknownRule reads every test of the repository, also those that the table does not name.
func TestNoTestNamesAnUnknownRule(t *testing.T) {
	t.Parallel()
	read := 0
	err := filepath.WalkDir(repo, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "rules"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		if _, err := mentions(string(text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || read < 50 {
		t.Errorf("read %d files of tests, %v, want all there are", read, err)
	}
}

// readTests returns the text of each test function in the folder's tests, its doc comment included, by name.
func readTests(folder string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("the folder has no tests")
	}
	functions := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := addTests(functions, file, text); err != nil {
			return nil, err
		}
	}
	return functions, nil
}

func addTests(functions map[string]string, name string, text []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		begin := f.Pos()
		if f.Doc != nil {
			begin = f.Doc.Pos()
		}
		functions[f.Name.Name] = string(text[fset.Position(begin).Offset:fset.Position(f.End()).Offset])
	}
	return nil
}

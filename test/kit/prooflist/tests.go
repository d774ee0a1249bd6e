package prooflist

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
)

// CheckTests returns what is wrong between the rows and the tests below dir.
func (l List) CheckTests(dir string, table []Row) (problems []string) {
	folders := map[string]map[string]string{}
	for _, r := range table {
		for _, test := range r.Tests {
			if _, read := folders[test.Folder]; !read {
				functions, err := readTests(filepath.Join(dir, test.Folder))
				if err != nil {
					problems = append(problems, fmt.Sprintf("%s names %s: %v", r.Number, test, err))
				}
				folders[test.Folder] = functions
			}
			if problem := l.checkTest(r.Number, test, folders[test.Folder]); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	return problems
}

// checkTest returns what is wrong with one test of a row, or nothing. Functions are those of its folder.
func (l List) checkTest(n Number, test Reference, functions map[string]string) string {
	text, found := functions[test.Function]
	if !found {
		return fmt.Sprintf("%s names %s, which is not there", n, test)
	}
	named, err := l.mentions(text)
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %v", test, err)
	case !slices.Contains(named, n):
		return fmt.Sprintf("%s names %s, which does not name %s", n, test, n)
	case test.Subtest != "" && !strings.Contains(text, `"`+test.Subtest+`"`):
		return fmt.Sprintf("%s names %s, which has no such subtest", n, test)
	}
	return ""
}

// CheckMentions reads every test below dir, also those that no table names, but those in folders of the names to leave
// out. It returns what is wrong with the numbers that they name, and how many files it has read.
func (l List) CheckMentions(dir string, leaveOut ...string) (problems []string, files int, err error) {
	all := os.DirFS(dir)
	err = fs.WalkDir(all, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(leaveOut, d.Name()) || d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(all, path)
		if err != nil {
			return err
		}
		files++
		if _, err := l.mentions(string(text)); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", filepath.Join(dir, path), err))
		}
		return nil
	})
	return problems, files, err
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

package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const kit = "test/kit"

// TestPageOfTheKit: the page of the kit names every package of the kit, its example is part of a test, and each function that it
// calls exists.
func TestPageOfTheKit(t *testing.T) {
	t.Parallel()
	page := contents(t, filepath.Join(kit, "README.md"))
	_, example, _ := strings.Cut(page, "```go\n")
	example, _, isWhole := strings.Cut(example, "```")
	if test := contents(t, "test/driver/kit_test.go"); !isWhole || !strings.Contains(test, example) {
		t.Errorf("test/driver/kit_test.go does not have the example of the page:\n%s", example)
	}
	folders, err := os.ReadDir(filepath.Join(repo, kit))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if folder.IsDir() && !strings.Contains(page, "`"+folder.Name()+"`") {
			t.Errorf("the page does not name the package %s", folder.Name())
		}
	}
	calls := regexp.MustCompile(`\b([a-z]+)\.([A-Z][A-Za-z]*)\(`).FindAllStringSubmatch(page, -1)
	for _, call := range calls {
		folder := call[1]
		if folder == "f" { // The fixture of the example.
			folder = "fixture"
		}
		if !slices.Contains(functionsOf(t, folder), call[2]) {
			t.Errorf("the page calls %s, which test/kit/%s does not have", call[0], folder)
		}
	}
	if len(calls) < 20 {
		t.Errorf("the page has %d calls, want 20 or more", len(calls))
	}
}

// functionsOf returns the names of the functions and methods of a package of the kit.
func functionsOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repo, kit, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

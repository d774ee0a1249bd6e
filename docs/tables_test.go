package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// repo is the root of the checkout.
const repo = ".."

// TestPageOfEvents compares the reasons and types of the driver's Events with docs/troubleshooting.md.
func TestPageOfEvents(t *testing.T) {
	var rows [][]string
	for _, c := range constants(t, "pkg/driver/volume") {
		if c.kind == "Reason" {
			kind := map[bool]string{true: "Warning", false: "Normal"}[volume.Reason(c.value).Warns()]
			rows = append(rows, []string{"`" + c.value + "`", kind})
		}
	}
	docs.Table{Page: "troubleshooting.md", Name: "the driver's Events", Columns: []string{"reason", "type"}, Rows: rows}.Compare(t)
}

// TestPageOfTheControllersEvents does the same for the rollout controller and docs/rollouts.md. An Event has the type that
// stands before its reason where the controller sends it.
func TestPageOfTheControllersEvents(t *testing.T) {
	types := map[string]string{}
	for _, file := range parse(t, "pkg/rollout") {
		ast.Inspect(file, func(n ast.Node) bool {
			notice, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			for i := 1; i < len(notice.Elts); i++ {
				kind, isKind := notice.Elts[i-1].(*ast.SelectorExpr)
				reason, isReason := notice.Elts[i].(*ast.Ident)
				if isKind && isReason && strings.HasPrefix(kind.Sel.Name, "EventType") {
					types[reason.Name] = strings.TrimPrefix(kind.Sel.Name, "EventType")
				}
			}
			return true
		})
	}
	var rows [][]string
	for _, c := range constants(t, "pkg/rollout") {
		if strings.HasPrefix(c.name, "Reason") {
			rows = append(rows, []string{"`" + c.value + "`", types[c.name]})
			if types[c.name] == "" {
				t.Errorf("nothing sends an Event of the reason %s", c.value)
			}
		}
	}
	docs.Table{Page: "rollouts.md", Name: "the controller's Events", Columns: []string{"reason", "type"}, Rows: rows}.Compare(t)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// constant is one of a package: its name, the type that stands beside the name, and its text.
type constant struct{ name, kind, value string }

func constants(t *testing.T, folder string) []constant {
	t.Helper()
	var all []constant
	for _, file := range parse(t, folder) {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				all = append(all, constantsOf(t, folder, spec)...)
			}
		}
	}
	return all
}

// constantsOf returns the constant of a line. Its text may be that of a constant of a package below the folder.
func constantsOf(t *testing.T, folder string, spec ast.Spec) []constant {
	t.Helper()
	value, ok := spec.(*ast.ValueSpec)
	if !ok || len(value.Values) != 1 {
		return nil
	}
	c := constant{name: value.Names[0].Name}
	switch text := value.Values[0].(type) {
	case *ast.BasicLit:
		if text.Kind != token.STRING {
			return nil
		}
		c.value, _ = strconv.Unquote(text.Value)
	case *ast.SelectorExpr:
		c.value = textOf(t, folder, text)
	}
	if c.value == "" {
		return nil
	}
	if kind, ok := value.Type.(*ast.Ident); ok {
		c.kind = kind.Name
	}
	return []constant{c}
}

// textOf returns the text of a constant of a package below a folder; empty for one of another package.
func textOf(t *testing.T, folder string, name *ast.SelectorExpr) string {
	t.Helper()
	pkg, ok := name.X.(*ast.Ident)
	if !ok {
		return ""
	}
	below := filepath.Join(folder, pkg.Name)
	if _, err := os.Stat(filepath.Join(repo, below)); err != nil {
		return ""
	}
	for _, c := range constants(t, below) {
		if c.name == name.Sel.Name {
			return c.value
		}
	}
	return ""
}

// parse returns the files of a package, without its tests, in the order of their names.
func parse(t *testing.T, folder string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repo, folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("there is no Go in %s: %v", folder, err)
	}
	var files []*ast.File
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			files = append(files, parseFile(t, path))
		}
	}
	return files
}

func parseFile(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

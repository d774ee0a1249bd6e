package e2e_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// mirrorRow is a line of MIRROR.md.
type mirrorRow struct {
	file     string // Of upstream's.
	title    string // Of the test there.
	scenario string // Of [mirrored]; empty when there is none.
	note     string // What is not as upstream has it.
}

// TestMirrorIsListed holds MIRROR.md to the scenarios of [TestMirror].
func TestMirrorIsListed(t *testing.T) {
	t.Parallel()
	got := map[mirrorRow]bool{}
	for _, row := range mirrorRows(t) {
		if row.scenario == "" && row.note == "" {
			t.Errorf("%s: %q names no scenario and does not say why", row.file, row.title)
		}
		row.note = ""
		if row.scenario != "" {
			got[row] = true
		}
	}
	want := map[mirrorRow]bool{}
	for _, f := range mirrored() {
		for name, sc := range f.scenarios {
			want[mirrorRow{file: f.name, title: sc.upstream, scenario: name}] = true
		}
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(mirrorRow{})); diff != "" {
		t.Errorf("rows of MIRROR.md with a scenario (-want +got):\n%s", diff)
	}
}

// TestMirrorListsEveryTest holds MIRROR.md to the tests that upstream has, in the version that the kubelet is built from.
func TestMirrorListsEveryTest(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for _, row := range mirrorRows(t) {
		got[row.file] = append(got[row.file], row.title)
	}
	folder := filepath.Join(upstreamDir(t), "test", "e2e", "common", "storage")
	want := map[string][]string{}
	for _, f := range mirrored() {
		want[f.name] = upstreamTitles(t, filepath.Join(folder, f.name))
		slices.Sort(want[f.name])
		slices.Sort(got[f.name])
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("titles in MIRROR.md (-want +got):\n%s", diff)
	}
}

// mirrorRows reads MIRROR.md: a section for each file, with a table of three columns.
func mirrorRows(t testing.TB) (rows []mirrorRow) {
	t.Helper()
	text, err := os.ReadFile("MIRROR.md")
	must(t, err)
	file := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if heading, found := strings.CutPrefix(line, "## "); found {
			file = heading
		}
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.Contains(line, "| upstream |") {
			continue
		}
		if len(cells) != 5 || file == "" {
			t.Fatalf("not a row of three cells in a section: %s", line)
		}
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(cell)
		}
		rows = append(rows, mirrorRow{file: file, title: cells[1], scenario: cells[2], note: cells[3]})
	}
	return rows
}

// upstreamDir is where the sources are that the node's programs were built from. They are downloaded if they are gone.
func upstreamDir(t testing.TB) string {
	t.Helper()
	repo, err := environment.Repo()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes")
	cmd.Dir = filepath.Join(repo, "test", "tools", "kubernetes")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if err := cmp.Or(err, json.Unmarshal(out, &module)); err != nil {
		t.Fatalf("find the sources of Kubernetes: %v\n%s", err, out)
	}
	return module.Dir
}

// upstreamTitles returns the titles of all tests of a file.
func upstreamTitles(t testing.TB, path string) (titles []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	must(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || !isTest(call.Fun) {
			return true
		}
		title, err := literal(call.Args)
		if err != nil {
			t.Fatalf("%s: a test without a plain title: %v", path, err)
		}
		titles = append(titles, title)
		return true
	})
	return titles
}

// isTest reports whether a call of a function declares a test.
func isTest(function ast.Expr) bool {
	selector, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	names := []string{"It", "ConformanceIt", "Specify", "Entry", "DescribeTable"}
	return slices.Contains(names, selector.Sel.Name)
}

// literal returns the string that is the first argument.
func literal(args []ast.Expr) (string, error) {
	if len(args) == 0 {
		return "", errors.New("it has no arguments")
	}
	lit, ok := args[0].(*ast.BasicLit)
	if !ok {
		return "", fmt.Errorf("its first argument is a %T", args[0])
	}
	return strconv.Unquote(lit.Value)
}

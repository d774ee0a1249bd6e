package docs_test

import (
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// pages returns the paths of all pages of the project.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/design/*.md", "docs/security/*.md", "deploy/*.md", "deploy/chart/*.md", "examples/*.md", "test/*.md", "test/kit/*.md", "pkg/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(repo, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("there is no page %s: %v", pattern, err)
		}
		for _, path := range found {
			all = append(all, strings.TrimPrefix(path, repo+"/"))
		}
	}
	return all
}

// prose returns the lines of a page outside of blocks of code.
func prose(text []byte) []string {
	var lines []string
	code := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			code = !code
		case !code:
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// TestLinks: each relative link of a page leads to a file or folder, and to a heading if it names one.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links := 0
	for _, page := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(strings.Join(prose(read(t, page)), "\n"), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			links++
			path, anchor, hasAnchor := strings.Cut(found[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(filepath.Join(repo, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, found[1])
				continue
			}
			if hasAnchor && !anchors(read(t, target))[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", page, found[1], target)
			}
		}
	}
	if links < 50 {
		t.Errorf("the pages have %d links, want 50 or more", links)
	}
}

// anchors returns the names that a page's headings have in links.
func anchors(text []byte) map[string]bool {
	all := map[string]bool{}
	for _, line := range prose(text) {
		if !regexp.MustCompile(`^#+ `).MatchString(line) {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimLeft(line, "# "))
		all[name] = true
	}
	return all
}

// TestCells: a cell of a table is read at a glance. What is longer is a paragraph.
func TestCells(t *testing.T) {
	t.Parallel()
	cells := 0
	more, err := filepath.Glob(filepath.Join(repo, "test", "*", "*.md"))
	if err != nil || len(more) == 0 {
		t.Fatalf("there is no page in test/*: %v", err)
	}
	for _, page := range append(pages(t), more...) {
		for _, line := range prose(read(t, strings.TrimPrefix(page, repo))) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for cell := range strings.SplitSeq(strings.Trim(line, "| "), " | ") {
				cells++
				if got := len([]rune(cell)); got > 160 {
					t.Errorf("%s: a cell has %d characters, want 160 at most: %s", page, got, cell)
				}
			}
		}
	}
	if cells < 1000 {
		t.Errorf("the pages have %d cells, want 1000 or more", cells)
	}
}

// TestSizes: a reader has the time for a page only while it is short.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		most := map[string]int{"README.md": 150, "DESIGN.md": 300, "SECURITY.md": 60}[page]
		if strings.HasPrefix(page, "docs/design/") {
			most = 60
		}
		if strings.HasPrefix(page, "docs/security/") {
			most = 260
		}
		if got := strings.Count(string(read(t, page)), "\n"); most > 0 && got > most {
			t.Errorf("%s has %d lines, want %d at most", page, got, most)
		}
	}
}

// TestFindYourWay: the functions and types exist that CONTRIBUTING.md names on its routes through the code, in the file or
// package that it names.
func TestFindYourWay(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(string(read(t, "CONTRIBUTING.md")), "\n## Find your way\n")
	section, _, _ = strings.Cut(section, "\n## ")
	steps := regexp.MustCompile("`(pkg/[a-z0-9/_.-]+)`:\\s((?:`[A-Za-z.]+`(?:,\\s)?)+)").FindAllStringSubmatch(section, -1)
	if routes := strings.Count(section, "\n### "); routes < 4 || len(steps) < 3*routes {
		t.Errorf("there are %d routes with %d steps, want 4 or more with three each", routes, len(steps))
	}
	for _, step := range steps {
		declared := declarations(t, step[1])
		for _, name := range regexp.MustCompile("`([A-Za-z.]+)`").FindAllStringSubmatch(step[2], -1) {
			if !declared[name[1]] {
				t.Errorf("CONTRIBUTING.md names %s in %s, which has no such function or type", name[1], step[1])
			}
		}
	}
}

// declarations returns the names of the functions and types of a file or package; methods as Type.Method.
func declarations(t *testing.T, path string) map[string]bool {
	t.Helper()
	files := []*ast.File{}
	if strings.HasSuffix(path, ".go") {
		files = append(files, parseFile(t, filepath.Join(repo, path)))
	} else {
		files = parse(t, path)
	}
	names := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.FuncDecl:
				names[receiver(n)+n.Name.Name] = true
			}
			return true
		})
	}
	return names
}

// receiver returns the type of a method and a dot.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if generic, ok := kind.(*ast.IndexExpr); ok {
		kind = generic.X
	}
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// folders returns the folders below cmd and pkg that have Go.
func folders(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for _, top := range []string{"cmd", "pkg"} {
		err := filepath.WalkDir(filepath.Join(repo, top), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				found[strings.TrimPrefix(filepath.Dir(path), repo+"/")] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// TestLanguage: lines of prose are short, and words that make a sentence hard to read do not occur. The generated tables have
// the words of the code.
func TestLanguage(t *testing.T) {
	t.Parallel()
	hard := regexp.MustCompile(`(?i)\b(anew|whoever|upon|in good order|by chance|without a word|is told|are told|tells)\b` +
		`|of (its|their) own($|[.,;:)])`)
	generated := regexp.MustCompile(`(?s)<!-- table of .*?<!-- end of `)
	for _, page := range pages(t) {
		if page == "CHANGELOG.md" { // What it has of earlier versions stays.
			continue
		}
		for _, line := range prose(generated.ReplaceAll(read(t, page), nil)) {
			if got := len([]rune(line)); got > 100 && !strings.HasPrefix(line, "|") && !strings.Contains(line, "](http") {
				t.Errorf("%s: a line has %d characters, want 100 at most: %s", page, got, line)
			}
			if found := hard.FindString(line); found != "" {
				t.Errorf("%s: write another word for %q: %s", page, found, line)
			}
		}
	}
}

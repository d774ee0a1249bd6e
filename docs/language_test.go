package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLanguageOfCode: comments and texts of the programs do not have the words that make a sentence hard to read, and lines that
// are comments are short. Of tests, the comments are read for these words; their texts may have them.
func TestLanguageOfCode(t *testing.T) {
	t.Parallel()
	hard := regexp.MustCompile(`(?i)\b(anew|whoever|upon|in good order|by chance|without a word|tells?|told|says?|said)\b` +
		`|\bhas nothing\b|\bof (its|their) own($|[.,;:)])`)
	subject := regexp.MustCompile(`(^|[.:] )(What|Which|Who|Whoever)\b[^?]*$`)
	checked := 0
	for _, folder := range folders(t) {
		paths, err := filepath.Glob(filepath.Join(repo, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			isTest := strings.HasSuffix(path, "_test.go")
			file, set := parseWithComments(t, path)
			for _, comment := range file.Comments {
				checked++
				text := strings.Join(strings.Fields(comment.Text()), " ")
				found := hard.FindString(text)
				if found == "" && !isTest {
					found = subject.FindString(text)
				}
				if found != "" {
					t.Errorf("%s: write another word for %q", set.Position(comment.Pos()), found)
				}
			}
			if isTest {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return true
				}
				checked++
				if found := hard.FindString(text.Value); found != "" {
					t.Errorf("%s: write another word for %q", set.Position(text.Pos()), found)
				}
				return true
			})
		}
	}
	if checked < 5000 {
		t.Errorf("%d comments and texts were checked, want 5000 or more", checked)
	}
}

// TestWidthOfComments: a line that is a comment has at most 100 columns, with tabs of four.
func TestWidthOfComments(t *testing.T) {
	t.Parallel()
	for _, folder := range folders(t) {
		paths, err := filepath.Glob(filepath.Join(repo, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for i, line := range strings.Split(string(read(t, strings.TrimPrefix(path, repo+"/"))), "\n") {
				line = strings.ReplaceAll(line, "\t", "    ")
				if got := len([]rune(line)); got > 100 && strings.HasPrefix(strings.TrimSpace(line), "// ") {
					t.Errorf("%s:%d: a comment has %d columns, want 100 at most", path, i+1, got)
				}
			}
		}
	}
}

func parseWithComments(t *testing.T, path string) (*ast.File, *token.FileSet) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file, set
}

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TestDomain shows that a fork changes the domain in one place of the code and one of the chart.
func TestDomain(t *testing.T) {
	t.Parallel()
	const ofCode, ofChart = "pkg/api/api.go", "deploy/chart/templates/_names.tpl"
	var found []string
	for _, dir := range []string{"pkg", "cmd", "deploy/chart/templates"} {
		found = append(found, filesWithDomain(t, dir)...)
	}
	if want := []string{ofCode, ofChart}; !slices.Equal(found, want) {
		t.Errorf("the domain %s is written in %v, want %v alone", api.Domain, found, want)
	}
	text, err := os.ReadFile(filepath.Join(repo, ofChart))
	if err != nil || !strings.Contains(string(text), "{{- define \"liveconfig.domain\" -}}\n"+api.Domain+"\n") {
		t.Errorf("%s does not define liveconfig.domain as %s (%v)", ofChart, api.Domain, err)
	}
}

// filesWithDomain returns the files that have the domain in a line of code.
func filesWithDomain(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(repo, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") || strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			code := strings.TrimSpace(line)
			if strings.Contains(code, api.Domain) && !strings.HasPrefix(code, "//") {
				found = append(found, strings.TrimPrefix(path, repo+"/"))
				return nil
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

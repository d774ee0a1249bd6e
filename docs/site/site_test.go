package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository writes files into a new folder, and returns it.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	repo := t.TempDir()
	for path, text := range files {
		if err := newCopier(repo, repo).write(path, text); err != nil {
			t.Fatal(err)
		}
	}
	return repo
}

func TestLinksLeadToPages(t *testing.T) {
	t.Parallel()
	repo := repository(t, map[string]string{
		"docs/page.md":      "[a](../LICENSE) [b](../pods/) [c](../pkg/#top) [d](other.md#x) [e](https://x.test/y)\n```\n[f](none)\n```\n",
		"docs/other.md":     "# Other\n",
		"LICENSE":           "Free\n",
		"pods/web.yaml":     "kind: Pod\n",
		"pods/deeper/x.txt": "not shown\n",
		"pkg/README.md":     "# Package\n",
	})
	out := t.TempDir()
	if err := newCopier(repo, out).copyAll([]string{"docs/page.md"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"docs/page.md": "[a](../LICENSE.md) [b](../pods/index.md) [c](../pkg/README.md#top) [d](other.md#x) " +
			"[e](https://x.test/y)\n```\n[f](none)\n```\n",
		"docs/other.md": "# Other\n",
		"LICENSE.md":    "# LICENSE\n\n````\nFree\n````\n",
		"pods/index.md": "# pods\n\n## web.yaml\n\n````yaml\nkind: Pod\n````\n",
		"pkg/README.md": "# Package\n",
	} {
		got, err := os.ReadFile(filepath.Join(out, path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestMissingFilesAreErrors(t *testing.T) {
	t.Parallel()
	repo := repository(t, map[string]string{"page.md": "[a](gone.md)\n"})
	for pattern, want := range map[string]string{"page.md": "gone.md", "none/*.md": "none/*.md"} {
		err := newCopier(repo, t.TempDir()).copyAll([]string{pattern})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one that names %s", pattern, err, want)
		}
	}
}

func TestListsAreWrittenAsTheGeneratorWants(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ page, want string }{
		"a list below prose":       {"Do:\n- a\n- b\n", "Do:\n\n- a\n- b\n"},
		"a second line of an item": {"- a\n  more\n- b\n", "- a\n    more\n- b\n"},
		"a numbered item":          {"1. a\n   more\n", "1. a\n    more\n"},
		"code of an item":          {"1. a\n   ```\n   x\n     y\n   ```\n", "1. a\n    ```\n    x\n      y\n    ```\n"},
		"code":                     {"```\nx:\n- a\n  b\n```\n", "```\nx:\n- a\n  b\n```\n"},
	} {
		if got := outsideCode(tt.page, func(line string) string { return line }); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

package docs_test

import (
	"strings"
	"testing"
)

// TestTextsThatPeopleSearchFor: troubleshooting.md has each of them as somebody sees it on a screen and pastes it into a
// search, in one line.
func TestTextsThatPeopleSearchFor(t *testing.T) {
	t.Parallel()
	page := string(read(t, "docs/troubleshooting.md"))
	for name, text := range map[string]string{
		"a deleted pod of an uninstalled driver": "`Completed` or `Error`",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(page, text) {
				t.Errorf("docs/troubleshooting.md does not have %q in one line", text)
			}
		})
	}
}

// TestWhatAPodShowsAfterAnUninstall: all pages that speak of the pods of an uninstalled driver name what kubectl prints.
// A pod whose containers have ended is not listed as Terminating.
func TestWhatAPodShowsAfterAnUninstall(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"deploy/README.md", "deploy/chart/templates/NOTES.txt", "docs/troubleshooting.md"} {
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(read(t, page)), "`", "")), " ")
		if !strings.Contains(text, "Completed or Error") || !strings.Contains(text, "no Event") {
			t.Errorf("%s does not say that such a pod shows Completed or Error, and no Event", page)
		}
		if strings.Contains(text, "Terminating") {
			t.Errorf("%s speaks of Terminating, which such a pod does not show", page)
		}
	}
}

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alert is one of deploy/monitoring/rules.yaml, as far as the pages speak of it.
type alert struct {
	Alert       string
	Labels      struct{ Severity string }
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var rules struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(read(t, "deploy/monitoring/rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range rules.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// TestPageOfAlerts: docs/alerts.md has a heading for each alert, in the order of the rules, with the meaning that the alert has,
// with something to look at and something to do. With LIVECONFIG_UPDATE set it writes the meanings.
func TestPageOfAlerts(t *testing.T) {
	t.Parallel()
	page := string(read(t, "docs/alerts.md"))
	var inRules, onPage []string
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(page, -1) {
		onPage = append(onPage, heading[1])
	}
	for _, a := range alerts(t) {
		inRules = append(inRules, a.Alert)
		page = withMeaning(t, page, a)
	}
	if !slices.Equal(onPage, inRules) {
		t.Errorf("docs/alerts.md has the headings %v, want %v", onPage, inRules)
	}
	if os.Getenv("LIVECONFIG_UPDATE") == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(repo, "docs/alerts.md"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withMeaning returns the page with the meaning of an alert. It compares the meaning of now, and what people write below it.
func withMeaning(t *testing.T, page string, a alert) string {
	t.Helper()
	before, rest, found := strings.Cut(page, "\n## "+a.Alert+"\n\n")
	meaning, written, hasLook := strings.Cut(rest, "\n\n**Look:**\n\n```sh\n")
	section, _, _ := strings.Cut(written, "\n## ")
	look, act, hasAct := strings.Cut(section, "```\n\n**Act:** ")
	if !found || !hasLook || !hasAct || strings.TrimSpace(look) == "" || strings.TrimSpace(act) == "" {
		t.Errorf("docs/alerts.md does not have %s with a meaning, commands to look and something to do", a.Alert)
		return page
	}
	want := wrapped("**Meaning** (" + a.Labels.Severity + "): " + a.Annotations["description"])
	if meaning != want && os.Getenv("LIVECONFIG_UPDATE") == "" {
		t.Errorf("docs/alerts.md says of %s:\n%s\nwant, and `make docs` writes it:\n%s", a.Alert, meaning, want)
	}
	return before + "\n## " + a.Alert + "\n\n" + want + "\n\n**Look:**\n\n```sh\n" + written
}

// wrapped returns a text in lines of at most 100 characters.
func wrapped(text string) string {
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && len([]rune(lines[last]))+1+len([]rune(word)) <= 100 {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return strings.Join(lines, "\n")
}

// TestAlertsLinkToTheirHeadings: the annotation runbook_url of an alert is the address of its heading.
func TestAlertsLinkToTheirHeadings(t *testing.T) {
	t.Parallel()
	headings := anchors(read(t, "docs/alerts.md"))
	for _, a := range alerts(t) {
		anchor, isPage := strings.CutPrefix(a.Annotations["runbook_url"], "https://github.com/liveconfig-csi/liveconfig/blob/main/docs/alerts.md#")
		if !isPage || anchor != strings.ToLower(a.Alert) || !headings[anchor] {
			t.Errorf("the runbook_url of %s is %q, want that of its heading in docs/alerts.md", a.Alert, a.Annotations["runbook_url"])
		}
	}
}

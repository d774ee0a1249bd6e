package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/check"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// TestDiffsOfSidecars: the driver takes the volumes that docs/from-sidecars.md ends with.
func TestDiffsOfSidecars(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("from-sidecars.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```diff\n")[1:]
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		checker := check.Checker{Driver: selection.Driver, Namespace: "default"}
		checker.File(manifest.File{Name: "from-sidecars.md", Text: afterDiff(block)})
		if checker.Checked.Volumes != 1 {
			t.Errorf("a diff has %d volumes of the driver, want 1:\n%s", checker.Checked.Volumes, block)
		}
		for _, finding := range checker.Findings {
			if finding.Severity == check.Mistake {
				t.Errorf("%s, in\n%s", finding, afterDiff(block))
			}
		}
	}
	if len(blocks) == 0 {
		t.Error("the page has no diffs")
	}
}

// afterDiff returns what a diff ends with. The chart's list of volumes gets the name that pods have for it.
func afterDiff(diff string) string {
	var b strings.Builder
	for line := range strings.Lines(diff) {
		if !strings.HasPrefix(line, "-") {
			b.WriteString(line[1:])
		}
	}
	return strings.ReplaceAll(b.String(), "\nextraVolumes:", "\nvolumes:")
}

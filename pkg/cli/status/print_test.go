package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// TestTableCells: no text of a node's report moves the cursor, or looks like another row.
func TestTableCells(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	lagging := podStatus{Pod: "web-1", State: versions.Lagging, Why: "no\x1b[2J\nweb-2\tcurrent"}
	if err := (table{now: time.Now()}).write(&b, []workloadStatus{{Workload: "pods/web-1", Sources: []sourceStatus{{Pods: []podStatus{lagging}}}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), `no\x1b[2J web-2 current`+"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("print = %q, want it to end with %q", got, want)
	}
}

// TestTableLimit: only the short table leaves pods out, and only then it counts them.
func TestTableLimit(t *testing.T) {
	t.Parallel()
	pods := slices.Repeat([]podStatus{{Pod: "web", State: versions.Lagging}}, mostRows+2)
	all := []workloadStatus{{Workload: "pods/web", Sources: []sourceStatus{{Pods: pods}}}}
	for wide, want := range map[bool]string{false: "and 2 more: -o wide shows all\n", true: "-\n"} {
		var b strings.Builder
		if err := (table{wide: wide, now: time.Now()}).write(&b, all); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.HasSuffix(got, want) || strings.Contains(got, "more") == wide {
			t.Errorf("with wide %v it prints %q, want it to end with %q", wide, got, want)
		}
	}
}

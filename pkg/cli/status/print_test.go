package status

import (
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
	rows := newTable(&b, time.Now())
	if err := rows.print([]workloadStatus{{Workload: "pods/web-1", Sources: []sourceStatus{{Pods: []podStatus{lagging}}}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), `no\x1b[2J web-2 current`+"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("print = %q, want it to end with %q", got, want)
	}
}

package status

import (
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// TestTableKeepsToItsCells has nothing of a node's report move the cursor, or look like another row.
func TestTableKeepsToItsCells(t *testing.T) {
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

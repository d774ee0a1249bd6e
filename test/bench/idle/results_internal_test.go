package idle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

// sample has a driver that does little, and one that does too much.
func sample() *bench {
	return &bench{
		cfg: Config{Volumes: 110, Runs: 3, Quiet: 100 * time.Second},
		subjects: []*subject{
			{key: "node", name: "little", user: "a", work: []proc.Work{
				{CPU: 20 * time.Millisecond, WakeUps: 100}, {CPU: 900 * time.Millisecond, WakeUps: 100}, {CPU: 40 * time.Millisecond, WakeUps: 400},
			}},
			{key: "own", name: "much", user: "b", work: []proc.Work{{CPU: time.Second}, {CPU: time.Second}, {CPU: 0}}},
		},
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	b := sample()
	for _, r := range []cluster.Request{{User: "b", Verb: "watch"}, {User: "b", Verb: "list"}, {User: "c", Verb: "get"}} {
		b.countFor(r)
	}
	if got, want := len(b.section().Notes), len(sample().section().Notes)+1; got != want {
		t.Errorf("the section has %d notes, want %d: the request is told", got, want)
	}
	got, reached := map[string]float64{}, map[string]bool{}
	for _, target := range b.targets() {
		got[target.Key], reached[target.Key] = target.Value, target.Reached()
	}
	want := map[string]float64{"idle-processor-node": 0.04, "idle-processor-own": 1, "idle-requests-node": 0, "idle-requests-own": 1}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	wantReached := map[string]bool{"idle-processor-node": true, "idle-processor-own": false, "idle-requests-node": true, "idle-requests-own": false}
	if diff := cmp.Diff(wantReached, reached); diff != "" {
		t.Errorf("reached (-want +got):\n%s", diff)
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	want := [][]string{
		{"little", "960 ms", "0.0400 %", "0.0200 %, 0.9000 %, 0.0400 %", "2", "0", "0", "0"},
		{"much", "2 s", "1.0000 %", "1.0000 %, 1.0000 %, 0.0000 %", "0", "0", "0", "0"},
	}
	table := sample().section().Tables[0]
	if diff := cmp.Diff(want, table.Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got, want := len(table.Header), len(want[0]); got != want {
		t.Errorf("the header has %d columns, want %d", got, want)
	}
}

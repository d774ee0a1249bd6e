package plan_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestWatch: all pods have the edit for a while before it becomes stable, so one that fails late takes it back from all of them.
func TestWatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotation string
		names      []string
		pause      time.Duration // Before all pods have it.
	}{
		"after a step":  {"{steps: [1], pause: 30s, watch: 10m}", []string{web}, 30 * time.Second},
		"without steps": {"{steps: [], watch: 10m}", []string{web}, 0},
		"of a group":    {"{steps: [1], pause: 30s, watch: 10m, group: g}", []string{web, "secret/web"}, 30 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, failing := range []bool{false, true} {
				w := newProving(t, 8, tt.annotation, tt.names...)
				w.do()
				if tt.pause > 0 {
					w.pass(tt.pause).do()
				}
				w.pass(9 * time.Minute).do()
				w.wantShown(8, release.Progressing)
				if failing {
					w.unit.Pods[3].IsReady = false
					w.do()
					w.wantShown(0, release.Reverted)
					continue
				}
				w.pass(time.Minute).do()
				w.wantStable("2")
				if w.asked == 0 {
					t.Error("it is stable, and no driver was asked")
				}
			}
		})
	}
}

// TestWatchNeedsProof: time alone makes nothing stable.
func TestWatchNeedsProof(t *testing.T) {
	t.Parallel()
	w := newProving(t, 4, "{steps: [], watch: 10m}", web)
	w.lose("the driver does not run")
	w.pass(10 * time.Minute).do()
	w.wantHeld(4, "the driver does not run")
}

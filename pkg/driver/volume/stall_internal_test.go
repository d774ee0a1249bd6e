package volume

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestStallDetector shows that work that does not go on is reported, and the oldest of it.
func TestStallDetector(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(p *stallDetector)
		want    string
	}{
		"nothing to do":             {func(*stallDetector) {}, "<nil>"},
		"volumes that nobody takes": {func(p *stallDetector) { p.noteQueued(3); p.noteQueued(4) }, "volumes have been waiting to be worked on since "},
		"volumes that were taken":   {func(p *stallDetector) { p.noteQueued(3); p.beginQueued("a")() }, "<nil>"},
		"an empty queue again":      {func(p *stallDetector) { p.noteQueued(3); p.noteQueued(0) }, "<nil>"},
		"a volume that takes long":  {func(p *stallDetector) { p.beginQueued("a") }, "volume a has been worked on since "},
		"the oldest of several":     {func(p *stallDetector) { p.beginQueued("a"); p.beginQueued("b"); p.beginQueued("a")() }, "volume a has been worked on since "},
		"a probe that waits":        {func(p *stallDetector) { p.beginProbe(); p.beginQueued("a") }, "a lock that all volumes need has not been free since "},
		"a probe that has ended":    {func(p *stallDetector) { p.beginProbe()() }, "<nil>"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p stallDetector
			began := time.Now()
			tc.prepare(&p)
			if err := p.check(began.Add(stuckAfter)); err != nil {
				t.Errorf("check() in time = %v, want nil", err)
			}
			if err := p.check(time.Now().Add(stuckAfter + time.Second)); !strings.HasPrefix(fmt.Sprint(err), tc.want) {
				t.Errorf("check() = %v, want %s", err, tc.want)
			}
		})
	}
}

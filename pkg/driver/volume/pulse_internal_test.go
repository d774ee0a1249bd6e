package volume

import (
	"testing"
	"time"
)

// TestPulse: what has not gone on for too long is told, with the oldest of it.
func TestPulse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(p *pulse)
		want    string
	}{
		"nothing to do":             {func(*pulse) {}, ""},
		"volumes that nobody takes": {func(p *pulse) { p.queued(3); p.queued(4) }, "volumes have been waiting to be worked on since "},
		"volumes that were taken":   {func(p *pulse) { p.queued(3); p.took("a")() }, ""},
		"an empty queue again":      {func(p *pulse) { p.queued(3); p.queued(0) }, ""},
		"a volume that takes long":  {func(p *pulse) { p.took("a") }, "volume a has been worked on since "},
		"the oldest of several":     {func(p *pulse) { p.took("a"); p.took("b"); p.took("a")() }, "volume a has been worked on since "},
		"a heart that waits":        {func(p *pulse) { p.beats(); p.took("a") }, "a lock that all volumes need has not been free since "},
		"a heart that rests":        {func(p *pulse) { p.beats()() }, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p pulse
			began := time.Now()
			tc.prepare(&p)
			if err := p.check(began.Add(stuckAfter)); err != nil {
				t.Errorf("check() in time = %v, want nil", err)
			}
			err := p.check(time.Now().Add(stuckAfter + time.Second))
			if got := errText(err); len(got) < len(tc.want) || got[:len(tc.want)] != tc.want || (tc.want == "") != (got == "") {
				t.Errorf("check() = %q, want %q", got, tc.want)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

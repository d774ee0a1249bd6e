package objectwatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestHowLongAPauseIs: it lasts its time, unless it is shortened or its context ends. Shortening
// one that is over changes nothing.
func TestHowLongAPauseIs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		meanwhile func(p *Pause, cancel context.CancelFunc)
		want      time.Duration
	}{
		"nothing happens":     {func(*Pause, context.CancelFunc) {}, time.Minute},
		"it is shortened":     {func(p *Pause, _ context.CancelFunc) { p.Shorten(time.Second) }, 31 * time.Second},
		"its context ends":    {func(_ *Pause, cancel context.CancelFunc) { cancel() }, 30 * time.Second},
		"both, and it is not": {func(p *Pause, cancel context.CancelFunc) { cancel(); p.Shorten(time.Hour) }, 30 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p, began := NewPause(time.Minute), time.Now()
				time.AfterFunc(30*time.Second, func() { tt.meanwhile(p, cancel) })
				p.wait(ctx)
				if got := time.Since(began); got != tt.want {
					t.Errorf("it was over after %s, want %s", got, tt.want)
				}
				p.Shorten(time.Second)
				cancel()
			})
		})
	}
}

package source

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// TestAPauseEndsAsAnExpiredWatch when it is time and not before, upon which a reflector lists anew.
func TestAPauseEndsAsAnExpiredWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPause(time.Minute)
		defer p.Stop()
		began := time.Now()
		event := <-p.ResultChan()
		if got := time.Since(began); got != time.Minute {
			t.Errorf("it ended after %s, want a minute", got)
		}
		if err := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(err) {
			t.Errorf("event = %v, %v, want that it has expired", event.Type, err)
		}
	})
}

// TestAPauseThatIsStoppedLeavesNothing: neither a timer that goes off, nor a goroutine that waits for who has left, be it
// stopped before its time, after, or twice.
func TestAPauseThatIsStoppedLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after time.Duration
		want  int // How many events it had.
	}{
		"before its time": {30 * time.Second, 0},
		"after it":        {time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPause(time.Minute)
				<-time.After(tt.after)
				p.Stop()
				p.Stop()
				<-time.After(time.Hour)
				synctest.Wait() // Nobody reads the event.
				if got := len(p.events); got != tt.want {
					t.Errorf("events = %d, want %d", got, tt.want)
				}
			})
		})
	}
}

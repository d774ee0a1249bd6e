package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/record"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// TestEventsOfANamespaceAreLimited, and those of others are not: anybody who may edit ConfigMaps can make any number of mistakes
// in annotations.
func TestEventsOfANamespaceAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // Where no time passes.
		f := newFixture(t)
		f.events = record.NewFakeRecorder(3 * eventBurst)
		f.c.cfg.Events = f.events
		mistaken := func(namespace string, objects int) {
			for i := range objects {
				ref := api.Ref{Kind: api.ConfigMap, Namespace: namespace, Name: fmt.Sprint("web-", i)}
				f.c.reportMistakes(t.Context(), []*member{{
					source: stable.Object{Ref: ref}, mistakes: []settings.Mistake{{Text: fmt.Sprint(time.Now())}},
				}})
			}
		}
		want := func(when string, count int) {
			if got := len(f.events.Events); got != count {
				t.Errorf("%s: %d Events, want %d", when, got, count)
			}
			for len(f.events.Events) > 0 {
				<-f.events.Events
			}
		}
		mistaken("noisy", 2*eventBurst)
		want("very many mistakes", eventBurst)
		mistaken("quiet", 10)
		want("a few in another namespace", 10)
		<-time.After(time.Second)
		mistaken("noisy", 2*eventBurst)
		want("very many mistakes a second later", eventRate)
	})
}

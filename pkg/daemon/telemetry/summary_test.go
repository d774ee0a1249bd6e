package telemetry_test

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
)

// TestScrapesShareASummary: the driver looks at its volumes once a second, at any rate of scrapes.
func TestScrapesShareASummary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		summaries := 0
		m := telemetry.NewMetrics("csi.test", "v1.2.3", telemetry.Gauges{Summary: func() telemetry.Summary {
			summaries++
			for range 100 {
				runtime.Gosched() // The others have asked by now.
			}
			return telemetry.Summary{Frozen: summaries}
		}})
		for want := 1; want <= 3; want++ {
			var scrapes sync.WaitGroup
			for range 50 {
				scrapes.Go(func() { scrape(t, m) })
			}
			scrapes.Wait()
			if summaries != want {
				t.Errorf("%d summaries for 50 scrapes, want 1", summaries-want+1)
			}
			<-time.After(900 * time.Millisecond)
			wantLine(t, scrape(t, m), "liveconfig_frozen_volumes", strconv.Itoa(want))
			<-time.After(100 * time.Millisecond)
		}
	})
}

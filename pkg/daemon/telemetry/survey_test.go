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

// TestScrapesShareASurvey: however many ask for metrics, all volumes are looked at once a second.
func TestScrapesShareASurvey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		surveys := 0
		m := telemetry.NewMetrics("csi.test", "v1.2.3", telemetry.Gauges{Survey: func() telemetry.Survey {
			surveys++
			for range 100 {
				runtime.Gosched() // The others have asked by now.
			}
			return telemetry.Survey{Frozen: surveys}
		}})
		for want := 1; want <= 3; want++ {
			var scrapes sync.WaitGroup
			for range 50 {
				scrapes.Go(func() { scrape(t, m) })
			}
			scrapes.Wait()
			if surveys != want {
				t.Errorf("%d surveys for 50 scrapes, want 1", surveys-want+1)
			}
			<-time.After(900 * time.Millisecond)
			wantLine(t, scrape(t, m), "liveconfig_frozen_volumes", strconv.Itoa(want))
			<-time.After(100 * time.Millisecond)
		}
	})
}

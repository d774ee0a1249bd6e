package telemetry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
)

// everything returns metrics of which each has been seen, so that all are shown with all their labels.
func everything() *telemetry.Metrics {
	one := func() int { return 1 }
	m := telemetry.NewMetrics("csi.test", "v1.2.3", telemetry.Gauges{
		Volumes: one, Recovered: one, Watches: one, Polled: one, EventsDropped: one, Replaced: one, ManifestProblems: one,
		Summary: func() telemetry.Summary { return telemetry.Summary{NotCurrent: map[string]int{"Missing": 1}} },
		Silence: func() time.Duration { return time.Second }, StateWritable: func() bool { return true },
		IsUnlabelled: func() bool { return false },
		RoomUsed:     func() int64 { return 1 }, RoomLimit: func() int64 { return 2 },
	})
	m.Expect([]string{"written"}, []string{"Missing"})
	m.Synced("written", time.Millisecond)
	m.Reached(time.Second)
	m.Refused("Missing")
	m.RecordCall("/csi.v1.Node/NodePublishVolume", nil, time.Millisecond)
	return m
}

// TestPageOfMetrics compares names, labels, types and helps with docs/metrics.md. Alerts and dashboards are written for
// these: a change of the page is a change for people who run the driver.
func TestPageOfMetrics(t *testing.T) {
	docs.Table{
		Page: "metrics.md", Name: "the driver's metrics", Columns: []string{"metric", "type", "meaning"},
		Rows: docs.Metrics(strings.Join(scrape(t, everything()), "\n")),
	}.Compare(t)
}

// TestGaugesThatNobodyReadsAreNotThere: rather than zero.
func TestGaugesThatNobodyReadsAreNotThere(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("csi.test", "v1.2.3", telemetry.Gauges{})
	for _, line := range scrape(t, m) {
		if strings.HasPrefix(line, "liveconfig_volumes") || strings.HasPrefix(line, "liveconfig_watch") {
			t.Errorf("there is %q", line)
		}
	}
}

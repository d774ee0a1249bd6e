package telemetry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
)

func newMetrics(volumes, watches int) *telemetry.Metrics {
	return telemetry.NewMetrics("csi.test", "v1.2.3", telemetry.Gauges{
		Volumes: func() int { return volumes },
		Watches: func() int { return watches },
	})
}

// scrape returns the lines that Prometheus would read. They are not compressed, not even for a client that would take them so:
// a compressor takes close to a megabyte, each time.
func scrape(t *testing.T, m *telemetry.Metrics) []string {
	t.Helper()
	mux := http.NewServeMux()
	m.Register(mux, "/metrics")
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip, zstd")
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, request)
	if got := recorder.Header().Get("Content-Encoding"); recorder.Code != http.StatusOK || got != "" {
		t.Fatalf("GET /metrics = %d, encoded by %q, want 200 and the metrics as they are", recorder.Code, got)
	}
	return strings.Split(recorder.Body.String(), "\n")
}

// wantLine checks that the one line that starts so is as it should be.
func wantLine(t *testing.T, lines []string, start, want string) {
	t.Helper()
	var got []string
	for _, line := range lines {
		if rest, found := strings.CutPrefix(line, start+" "); found {
			got = append(got, rest)
		}
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%s = %v, want %s once", start, got, want)
	}
}

func TestMetricsSayWhatWasCounted(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("csi.test", "v1.2.3", telemetry.Gauges{
		Volumes: func() int { return 7 }, Watches: func() int { return 3 }, Summary: func() telemetry.Summary {
			return telemetry.Summary{NotCurrent: map[string]int{"Missing": 2, "IO": 0}, Frozen: 1, Staleness: 90 * time.Second}
		},
	})
	m.Expect([]string{"written", "unchanged"}, []string{"Missing"}) // An alert on a rate needs the first value to be zero.
	m.Reached(-time.Hour)                                           // A change of the future has no age.
	m.Reached(3 * time.Second)
	m.Synced("written", 30*time.Millisecond)
	m.Synced("written", 0) // No change caused it.
	m.Synced("failed", 0)
	m.RecordCall("/csi.v1.Node/NodePublishVolume", nil, 20*time.Millisecond)
	m.RecordCall("/csi.v1.Node/NodePublishVolume", status.Error(codes.Aborted, "busy"), time.Millisecond)
	m.RecordCall("/csi.v1.Node/NodeUnpublishVolume", errors.New("no status"), time.Millisecond)

	const calls = "csi_plugin_operations_seconds_count"
	lines := scrape(t, m)
	for start, want := range map[string]string{
		`liveconfig_volumes`:                                                   "7",
		`liveconfig_watches`:                                                   "3",
		`liveconfig_syncs_total{result="written"}`:                             "2",
		`liveconfig_syncs_total{result="failed"}`:                              "1",
		`liveconfig_syncs_total{result="unchanged"}`:                           "0",
		`liveconfig_publishes_refused_total{kind="Missing"}`:                   "0",
		`liveconfig_volumes_not_current{kind="Missing"}`:                       "2",
		`liveconfig_volumes_not_current{kind="IO"}`:                            "0",
		`liveconfig_frozen_volumes`:                                            "1",
		`liveconfig_staleness_seconds`:                                         "90",
		`liveconfig_propagation_seconds_sum`:                                   "3",
		`liveconfig_propagation_seconds_count`:                                 "2",
		`liveconfig_propagation_seconds_bucket{le="1"}`:                        "1",
		`liveconfig_update_duration_seconds_count`:                             "1",
		`liveconfig_update_duration_seconds_sum`:                               "0.03",
		calls + labels("OK", "/csi.v1.Node/NodePublishVolume"):                 "1",
		calls + labels("Aborted", "/csi.v1.Node/NodePublishVolume"):            "1",
		calls + labels("unknown-non-grpc", "/csi.v1.Node/NodeUnpublishVolume"): "1",
		`# TYPE liveconfig_syncs_total`:                                        "counter",
		`# TYPE liveconfig_update_duration_seconds`:                            "histogram",
		`# HELP liveconfig_syncs_total`:                                        "Syncs of volumes by result: written, unchanged or failed.",
		`# TYPE go_goroutines`:                                                 "gauge",
		`# TYPE process_resident_memory_bytes`:                                 "gauge",
	} {
		wantLine(t, lines, start, want)
	}
}

func labels(code, method string) string {
	return `{driver_name="csi.test",grpc_status_code="` + code + `",method_name="` + method + `"}`
}

// TestUpdateBucketsResolveWhatMatters: an update takes well under a millisecond, a bad day seconds.
func TestUpdateBucketsResolveWhatMatters(t *testing.T) {
	t.Parallel()
	m := newMetrics(0, 0)
	for _, took := range []time.Duration{80 * time.Microsecond, 800 * time.Microsecond, 8 * time.Millisecond, 10 * time.Second} {
		m.Synced("written", took)
	}
	counts := map[string]bool{}
	for _, line := range scrape(t, m) {
		if rest, found := strings.CutPrefix(line, "liveconfig_update_duration_seconds_bucket{"); found && !strings.Contains(rest, "+Inf") {
			_, count, _ := strings.Cut(rest, "} ")
			counts[count] = true
		}
	}
	for _, want := range []string{"1", "2", "3", "4"} {
		if !counts[want] {
			t.Errorf("no bucket ends between two of the four durations: %v", counts)
		}
	}
}

// TestMetricsHaveNoGlobals: two sets in one process know nothing of each other.
func TestMetricsHaveNoGlobals(t *testing.T) {
	t.Parallel()
	one, two := newMetrics(1, 0), newMetrics(2, 0)
	one.Synced("written", 0)
	one.RecordCall("/csi.v1.Node/NodePublishVolume", nil, time.Millisecond)
	wantLine(t, scrape(t, one), "liveconfig_volumes", "1")
	lines := scrape(t, two)
	wantLine(t, lines, "liveconfig_volumes", "2")
	for _, line := range lines {
		if strings.Contains(line, `result="written"`) || strings.Contains(line, "NodePublishVolume") {
			t.Errorf("the second set has the first one's %q", line)
		}
	}
}

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

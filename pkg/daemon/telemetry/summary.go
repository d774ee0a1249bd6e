package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// summaryInterval is how old a summary may be. Making one takes the lock of each volume, and any
// client of the network may ask for metrics at any rate.
const summaryInterval = time.Second

// Summary is the state of all volumes in numbers.
type Summary struct {
	// NotCurrent counts live volumes that have a problem, by its kind, with every kind that there
	// is.
	NotCurrent map[string]int
	// Frozen counts live volumes that are no longer updated.
	Frozen int
	// Staleness is for how long the oldest known change is not in the files.
	Staleness time.Duration
}

// summaryCollector turns a summary into metrics.
type summaryCollector struct {
	read                          func() Summary
	notCurrent, frozen, staleness *prometheus.Desc
}

func newSummaryCollector(read func() Summary) summaryCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return summaryCollector{
		read: sharing(read),
		notCurrent: desc("volumes_not_current",
			"Live volumes whose files differ from their sources, or may differ, by the kind of the problem.", labelKind),
		frozen: desc("frozen_volumes",
			"Live volumes that the driver no longer updates, because it cannot use their attributes or sources."),
		staleness: desc("staleness_seconds",
			"Age of the oldest received change that is not yet in the files of a volume without a problem; 0 if no "+
				"change waits."),
	}
}

// Describe implements [prometheus.Collector].
func (s summaryCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- s.notCurrent
	descs <- s.frozen
	descs <- s.staleness
}

// Collect implements [prometheus.Collector].
func (s summaryCollector) Collect(metrics chan<- prometheus.Metric) {
	summary := s.read()
	for kind, n := range summary.NotCurrent {
		metrics <- prometheus.MustNewConstMetric(s.notCurrent, prometheus.GaugeValue, float64(n), kind)
	}
	metrics <- prometheus.MustNewConstMetric(s.frozen, prometheus.GaugeValue, float64(summary.Frozen))
	metrics <- prometheus.MustNewConstMetric(s.staleness, prometheus.GaugeValue, summary.Staleness.Seconds())
}

// sharing returns a function that returns the summary of the last second, or makes a new one.
// Concurrent calls share one.
func sharing(read func() Summary) func() Summary {
	var mu sync.Mutex // Guards last and made.
	var last Summary
	var made time.Time
	return func() Summary {
		mu.Lock()
		defer mu.Unlock()
		if made.IsZero() || time.Since(made) >= summaryInterval {
			last = read()
			made = time.Now()
		}
		return last
	}
}

package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// surveyInterval is how old a survey may be. One looks at each volume under its lock, and whoever reaches the driver by the
// network may ask for metrics any number of times.
const surveyInterval = time.Second

// Survey is the state of all volumes in numbers.
type Survey struct {
	// NotCurrent counts live volumes that have a problem, by its kind, with every kind that there is.
	NotCurrent map[string]int
	// Frozen counts live volumes that are not updated any more.
	Frozen int
	// Staleness is for how long the oldest known change is not in the files.
	Staleness time.Duration
}

// surveyor makes metrics of one survey.
type surveyor struct {
	read                          func() Survey
	notCurrent, frozen, staleness *prometheus.Desc
}

func newSurveyor(read func() Survey) surveyor {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return surveyor{
		read: sharing(read),
		notCurrent: desc("volumes_not_current",
			"Live volumes whose files are not, or may not be, what their sources say, by the kind of the problem.", labelKind),
		frozen: desc("frozen_volumes",
			"Live volumes that are not updated any more, because their attributes or sources cannot be used."),
		staleness: desc("staleness_seconds",
			"For how long the oldest change that is known is not in the files of a volume without a problem; 0 when all are."),
	}
}

// Describe implements [prometheus.Collector].
func (s surveyor) Describe(descs chan<- *prometheus.Desc) {
	descs <- s.notCurrent
	descs <- s.frozen
	descs <- s.staleness
}

// Collect implements [prometheus.Collector].
func (s surveyor) Collect(metrics chan<- prometheus.Metric) {
	survey := s.read()
	for kind, n := range survey.NotCurrent {
		metrics <- prometheus.MustNewConstMetric(s.notCurrent, prometheus.GaugeValue, float64(n), kind)
	}
	metrics <- prometheus.MustNewConstMetric(s.frozen, prometheus.GaugeValue, float64(survey.Frozen))
	metrics <- prometheus.MustNewConstMetric(s.staleness, prometheus.GaugeValue, survey.Staleness.Seconds())
}

// sharing returns a function that returns a survey of the last second, and makes one where there is none. Calls at the same
// time wait for the same one.
func sharing(read func() Survey) func() Survey {
	var mu sync.Mutex // Guards last and made.
	var last Survey
	var made time.Time
	return func() Survey {
		mu.Lock()
		defer mu.Unlock()
		if made.IsZero() || time.Since(made) >= surveyInterval {
			last = read()
			made = time.Now()
		}
		return last
	}
}

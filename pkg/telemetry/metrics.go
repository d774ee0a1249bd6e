package telemetry

import (
	"net/http"
	"time"

	csimetrics "github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

const namespace = "liveconfig"

// Labels of our metrics.
const labelResult = "result"

// Metrics counts what the driver does.
type Metrics struct {
	registry *prometheus.Registry
	csi      csimetrics.CSIMetricsManager
	syncs    *prometheus.CounterVec
	updates  prometheus.Histogram
}

// Gauges are read when metrics are collected. Both functions must be safe for concurrent use.
type Gauges struct {
	// Volumes returns how many volumes are published.
	Volumes func() int
	// Watches returns how many objects are watched.
	Watches func() int
}

// NewMetrics returns metrics of the driver of that name, in a registry of their own.
func NewMetrics(driver string, gauges Gauges) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "syncs_total",
			Help: "Syncs of volumes by result: written, unchanged or failed.",
		}, []string{labelResult}),
		updates: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "update_duration_seconds",
			Help:    "From the watch event of a change until the change is in the files of a volume.",
			Buckets: prometheus.ExponentialBuckets(0.000_1, 2.5, 14),
		}),
	}
	m.registry.MustRegister(m.syncs, m.updates,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("volumes", "Volumes that are published or being published.", gauges.Volumes),
		gauge("watches", "Objects that are being watched.", gauges.Watches))
	m.csi = csimetrics.NewCSIMetricsManagerWithOptions(driver,
		csimetrics.WithSubsystem(csimetrics.SubsystemPlugin), csimetrics.WithProcessStartTime(false))
	m.csi = m.csi.WithAdditionalRegistry(m.registry)
	return m
}

func gauge(name, help string, read func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help},
		func() float64 { return float64(read()) })
}

// RecordCall counts a finished CSI call.
func (m *Metrics) RecordCall(method string, err error, duration time.Duration) {
	m.csi.RecordMetrics(method, err, duration)
}

// Synced counts a finished sync and, where a change caused it that is now in the files, how long that took.
func (m *Metrics) Synced(result string, took time.Duration) {
	m.syncs.WithLabelValues(result).Inc()
	if took > 0 {
		m.updates.Observe(took.Seconds())
	}
}

// Register serves the metrics at path of mux.
func (m *Metrics) Register(mux *http.ServeMux, path string) {
	m.csi.RegisterToServer(mux, path)
}

package telemetry

import (
	"net/http"
	"time"

	csimetrics "github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

const namespace = "liveconfig"

// Labels of our metrics. Their values are closed sets: no metric grows with pods, namespaces or
// objects.
const (
	labelResult = "result"
	labelKind   = "kind"
)

// Metrics counts what the driver does.
type Metrics struct {
	registry *prometheus.Registry
	csi      csimetrics.CSIMetricsManager
	syncs    *prometheus.CounterVec
	refused  *prometheus.CounterVec
	updates  prometheus.Histogram
	ages     prometheus.Histogram
}

// Gauges are read when metrics are collected. All functions must be safe for concurrent use. One
// that is nil has no metric.
type Gauges struct {
	// Volumes returns how many volumes are published.
	Volumes func() int
	// Recovered returns how many volumes of an earlier run were taken over.
	Recovered func() int
	// Summary returns the state of all volumes in numbers. It is called at most once a second,
	// however many ask for metrics.
	Summary func() Summary
	// Watches returns how many objects are watched, and Polled how many of these are only polled.
	Watches, Polled func() int
	// Silence returns for how long nothing has been heard of the object that has been silent
	// longest, whether a watch of it is open or not.
	Silence func() time.Duration
	// Replaced returns how many watches were found to be dead.
	Replaced func() int
	// EventsDropped returns how many Events were not sent.
	EventsDropped func() int
	// ManifestProblems returns how many mistakes there are in the manifests that stand for an API
	// server.
	ManifestProblems func() int
	// RoomUsed and RoomLimit return how much memory volumes and their objects take, and how much
	// they may, in bytes.
	RoomUsed, RoomLimit func() int64
	// StateWritable reports whether records can be written.
	StateWritable func() bool
	// IsUnlabelled reports whether the node refuses the SELinux context of volumes.
	IsUnlabelled func() bool
}

// NewMetrics returns metrics of the driver of that name and version, in their own registry.
func NewMetrics(driver, version string, gauges Gauges) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "syncs_total",
			Help: "Syncs of volumes by result: written, unchanged or failed.",
		}, []string{labelResult}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "publishes_refused_total",
			Help: "Publish calls that the driver refused, by the kind of the error.",
		}, []string{labelKind}),
		updates: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "update_duration_seconds",
			Help:    "Time from the watch event of a change until the change is in the files of a volume.",
			Buckets: prometheus.ExponentialBuckets(0.000_1, 2.5, 14),
		}),
		ages: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "propagation_seconds",
			Help: "Time from the change of an object, which the API server records in whole seconds, until the change is " +
				"in the files of a volume.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
		}),
	}
	m.registry.MustRegister(m.syncs, m.refused, m.updates, m.ages, buildInfo(version),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(gauges.collectors()...)
	m.csi = csimetrics.NewCSIMetricsManagerWithOptions(driver,
		csimetrics.WithSubsystem(csimetrics.SubsystemPlugin), csimetrics.WithProcessStartTime(false))
	m.csi = m.csi.WithAdditionalRegistry(m.registry)
	return m
}

func (g Gauges) collectors() []prometheus.Collector {
	var all []prometheus.Collector
	add := func(c prometheus.Collector, isRead bool) {
		if isRead {
			all = append(all, c)
		}
	}
	add(count("volumes", "Volumes that are published or being published.", g.Volumes), g.Volumes != nil)
	add(count("recovered_volumes", "Volumes of an earlier run that the driver took over when it started.", g.Recovered),
		g.Recovered != nil)
	add(newSummaryCollector(g.Summary), g.Summary != nil)
	add(count("watches", "Objects that the driver watches or polls.", g.Watches), g.Watches != nil)
	add(count("polled_objects", "Objects that the driver polls, because their readers may not watch them.", g.Polled),
		g.Polled != nil)
	add(seconds("watch_silence_seconds",
		"Time since the API server last delivered anything about the object that has been silent longest. "+
			"It grows during an outage, also while no watch is open.", g.Silence),
		g.Silence != nil)
	add(counter("watches_replaced_total", "Watches that the driver reopened because they had stopped delivering events.",
		g.Replaced),
		g.Replaced != nil)
	add(counter("events_dropped_total",
		"Events about pods that the driver did not send: too many of one reason about one volume, or too many in the queue.",
		g.EventsDropped),
		g.EventsDropped != nil)
	add(count("manifest_problems", "Mistakes in the manifests of --manifests. The driver serves the last good objects.",
		g.ManifestProblems), g.ManifestProblems != nil)
	add(bytes("room_used_bytes", "Memory that the files of volumes and their source objects use.", g.RoomUsed),
		g.RoomUsed != nil)
	add(bytes("room_limit_bytes", "Memory that the files of volumes and their source objects may use. "+
		"The driver refuses new volumes beyond three quarters of it: the rest is for changes of live ones.", g.RoomLimit),
		g.RoomLimit != nil)
	add(truth("state_directory_writable", "1 if the driver could write its records at the last attempt, else 0.",
		g.StateWritable),
		g.StateWritable != nil)
	add(truth("selinux_context_refused",
		"1 if the node's SELinux policy refuses --selinux-context, so that volumes have no context, else 0.",
		g.IsUnlabelled), g.IsUnlabelled != nil)
	return all
}

func gauge(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, read)
}

func truth(name, help string, read func() bool) prometheus.Collector {
	return gauge(name, help, func() float64 {
		if read() {
			return 1
		}
		return 0
	})
}

func count(name, help string, read func() int) prometheus.Collector {
	return gauge(name, help, func() float64 { return float64(read()) })
}

func bytes(name, help string, read func() int64) prometheus.Collector {
	return gauge(name, help, func() float64 { return float64(read()) })
}

func counter(name, help string, read func() int) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help},
		func() float64 { return float64(read()) })
}

func seconds(name, help string, read func() time.Duration) prometheus.Collector {
	return gauge(name, help, func() float64 { return read().Seconds() })
}

// buildInfo is the metric of the version that runs.
func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, with the version of the driver.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
}

// Expect creates the series of results and kinds with 0, because a rate needs a first sample.
func (m *Metrics) Expect(results, refusals []string) {
	for _, result := range results {
		m.syncs.WithLabelValues(result)
	}
	for _, kind := range refusals {
		m.refused.WithLabelValues(kind)
	}
}

// RecordCall counts a finished CSI call.
func (m *Metrics) RecordCall(method string, err error, duration time.Duration) {
	m.csi.RecordMetrics(method, err, duration)
}

// Synced counts a finished sync and, where a change caused it that is now in the files, how long
// that took.
func (m *Metrics) Synced(result string, took time.Duration) {
	m.syncs.WithLabelValues(result).Inc()
	if took > 0 {
		m.updates.Observe(took.Seconds())
	}
}

// Reached counts a change of an object that is now in the files of a volume, and how old it is. The
// clocks may differ: one of the future has no age.
func (m *Metrics) Reached(age time.Duration) { m.ages.Observe(max(0, age).Seconds()) }

// Refused counts a publish that was refused with an error of the kind.
func (m *Metrics) Refused(kind string) { m.refused.WithLabelValues(kind).Inc() }

// Register serves the metrics at path of mux, as they are: a compressor takes more memory than the
// metrics of a thousand nodes.
func (m *Metrics) Register(mux *http.ServeMux, path string) {
	m.csi.RegisterToServer(plain{mux}, path)
}

// plain is a mux whose handlers hear of no encoding that a client would take: the metrics manager
// has no option for it.
type plain struct{ mux *http.ServeMux }

// Handle implements [csimetrics.Server].
func (p plain) Handle(pattern string, handler http.Handler) {
	p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Del("Accept-Encoding")
		handler.ServeHTTP(w, r)
	})
}

// Package clientmetrics shows what Kubernetes' client libraries count, under the names by which
// other controllers show it: work queues, requests to the API server, and the election of a leader.
package clientmetrics

import (
	"context"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/workqueue"
)

// buckets are from 1 ms to about a minute.
func buckets() []float64 {
	const first, factor, count = 0.001, 4, 9
	return prometheus.ExponentialBuckets(first, factor, count)
}

// Queues are the metrics of work queues, by their names. It is a [workqueue.MetricsProvider].
type Queues struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	wait, work                 *prometheus.HistogramVec
}

var _ workqueue.MetricsProvider = (*Queues)(nil)

// NewQueues returns metrics that are registered.
func NewQueues(registry prometheus.Registerer) (*Queues, error) {
	name := []string{"name"}
	gauge := func(metric, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_" + metric, Help: help}, name)
	}
	counter := func(metric, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_" + metric, Help: help}, name)
	}
	histogram := func(metric, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_" + metric, Help: help, Buckets: buckets(),
		}, name)
	}
	q := &Queues{
		depth:      gauge("depth", "Items that wait in a queue."),
		unfinished: gauge("unfinished_work_seconds", "Sum of how long the items that are worked on have been."),
		longest:    gauge("longest_running_processor_seconds", "How long the oldest item that is worked on has been."),
		adds:       counter("adds_total", "Items that were added to a queue."),
		retries:    counter("retries_total", "Items that were added again after a failure."),
		wait:       histogram("queue_duration_seconds", "How long items wait until a worker takes them."),
		work:       histogram("work_duration_seconds", "How long the work on an item takes."),
	}
	for _, c := range []prometheus.Collector{q.depth, q.unfinished, q.longest, q.adds, q.retries, q.wait, q.work} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// NewDepthMetric implements [workqueue.MetricsProvider].
func (q *Queues) NewDepthMetric(name string) workqueue.GaugeMetric {
	return q.depth.WithLabelValues(name)
}

// NewAddsMetric implements [workqueue.MetricsProvider].
func (q *Queues) NewAddsMetric(name string) workqueue.CounterMetric {
	return q.adds.WithLabelValues(name)
}

// NewLatencyMetric implements [workqueue.MetricsProvider].
func (q *Queues) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return q.wait.WithLabelValues(name)
}

// NewWorkDurationMetric implements [workqueue.MetricsProvider].
func (q *Queues) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return q.work.WithLabelValues(name)
}

// NewUnfinishedWorkSecondsMetric implements [workqueue.MetricsProvider].
func (q *Queues) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.unfinished.WithLabelValues(name)
}

// NewLongestRunningProcessorSecondsMetric implements [workqueue.MetricsProvider].
func (q *Queues) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.longest.WithLabelValues(name)
}

// NewRetriesMetric implements [workqueue.MetricsProvider].
func (q *Queues) NewRetriesMetric(name string) workqueue.CounterMetric {
	return q.retries.WithLabelValues(name)
}

// requests counts requests to the API server.
type requests struct {
	results *prometheus.CounterVec
	latency *prometheus.HistogramVec
}

// Increment implements [metrics.ResultMetric].
func (r *requests) Increment(_ context.Context, code, method, host string) {
	r.results.WithLabelValues(code, method, host).Inc()
}

// Observe implements [metrics.LatencyMetric].
func (r *requests) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	r.latency.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}

// election has the state of the election: whether this process leads.
type election struct{ leads *prometheus.GaugeVec }

// NewLeaderMetric implements [leaderelection.MetricsProvider].
func (e election) NewLeaderMetric() leaderelection.LeaderMetric { return e }

// On implements [leaderelection.LeaderMetric].
func (e election) On(name string) { e.leads.WithLabelValues(name).Set(1) }

// Off implements [leaderelection.LeaderMetric].
func (e election) Off(name string) { e.leads.WithLabelValues(name).Set(0) }

// SlowpathExercised implements [leaderelection.LeaderMetric].
func (election) SlowpathExercised(string) {}

// Register registers the metrics of requests and of the election. The libraries have one place for
// each in a process: the first call counts.
func Register(registry prometheus.Registerer) error {
	r := &requests{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total", Help: "Requests to the API server, by status code, method and host.",
		}, []string{"code", "method", "host"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_request_duration_seconds", Help: "How long requests to the API server take, by verb and host.",
			Buckets: buckets(),
		}, []string{"verb", "host"}),
	}
	e := election{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leader_election_master_status", Help: "1 while this process holds the lease, 0 before and after.",
	}, []string{"name"})}
	for _, c := range []prometheus.Collector{r.results, r.latency, e.leads} {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	metrics.Register(metrics.RegisterOpts{RequestLatency: r, RequestResult: r})
	leaderelection.SetProvider(e)
	return nil
}

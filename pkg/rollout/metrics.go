package rollout

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// result is what came of a decision, as the metric counts it.
type result string

const (
	resultRolledOut result = "rolled_out"
	resultRepaired  result = "repaired"
	resultUndone    result = "undone"
	resultOptedOut  result = "opted_out"
	resultFailed    result = "failed"
)

// Metrics are what a controller counts.
type Metrics struct {
	rollouts *prometheus.CounterVec
	remade   prometheus.Counter
	putOff   prometheus.Counter
	lag      prometheus.Histogram
	heldBack *prometheus.GaugeVec
	copies   prometheus.Gauge

	// mu guards waiting: why the edits of each workload are held back.
	mu      sync.Mutex
	waiting map[workload.Ref]plan.Held
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	const prefix = "liveconfig_controller_"
	m := &Metrics{
		rollouts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "rollouts_total",
			Help: "Writes to workloads by result: rolled_out, repaired (somebody applied a manifest again), undone (the start " +
				"or the end of an undo), opted_out, failed.",
		}, []string{"result"}),
		remade: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "copies_remade_total",
			Help: "Copies that the controller created again because somebody had deleted them.",
		}),
		putOff: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "put_off_total",
			Help: "Times that work had to wait because its namespace had used up its share.",
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "edit_to_template_seconds",
			Help: "Time from the edit of a source, which the API server records in whole seconds, to the change of a " +
				"pod template.",
			Buckets: []float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 3600},
		}),
		heldBack: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "held_back",
			Help: "Workloads with a change that the controller does not roll out, by reason: paused, undone, failing, problem.",
		}, []string{"reason"}),
		copies: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "copies", Help: "Copies that exist.",
		}),
		waiting: map[workload.Ref]plan.Held{},
	}
	for _, r := range []result{resultRolledOut, resultRepaired, resultUndone, resultOptedOut, resultFailed} {
		m.rollouts.WithLabelValues(string(r))
	}
	for _, reason := range heldReasons() {
		m.heldBack.WithLabelValues(string(reason))
	}
	registry.MustRegister(m.rollouts, m.remade, m.putOff, m.lag, m.heldBack, m.copies)
	return m
}

func heldReasons() []plan.Held {
	return []plan.Held{plan.HeldByPause, plan.HeldByUndo, plan.HeldByFailure, plan.HeldByProblem}
}

func (m *Metrics) count(r result) { m.rollouts.WithLabelValues(string(r)).Inc() }

// rolledOut notes how old the edit is that was rolled out.
func (m *Metrics) rolledOut(age time.Duration) { m.lag.Observe(max(0, age.Seconds())) }

// held notes why a workload's change is held back; empty: it is not.
func (m *Metrics) held(ref workload.Ref, reason plan.Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.waiting[ref]
	if before == reason {
		return
	}
	if before != "" {
		m.heldBack.WithLabelValues(string(before)).Dec()
	}
	delete(m.waiting, ref)
	if reason != "" {
		m.heldBack.WithLabelValues(string(reason)).Inc()
		m.waiting[ref] = reason
	}
}

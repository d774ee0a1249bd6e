package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/nodeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// reporter shows what happens to volumes in metrics and Events.
type reporter struct{ *parts }

var _ volume.Reporter = reporter{}

// Event writes an Event on the pod.
func (r reporter) Event(pod api.Pod, name string, reason volume.Reason, note string) {
	r.origin.events.Write(telemetry.Event{
		Pod: pod, Volume: name, Warning: reason.Warns(), Reason: string(reason), Note: note,
	})
}

// Synced counts a sync.
func (r reporter) Synced(result volume.Result, since time.Time) {
	took := time.Duration(0)
	if result == volume.ResultWritten && !since.IsZero() {
		took = time.Since(since)
	}
	r.metrics.Synced(string(result), took)
}

// Reached counts a change of an object that is in the files.
func (r reporter) Reached(changed time.Time) { r.metrics.Reached(time.Since(changed)) }

// counted counts the publishes that are refused.
type counted struct {
	*volume.Manager
	metrics *telemetry.Metrics
}

// Publish publishes.
func (c counted) Publish(ctx context.Context, r volume.Request) error {
	err := c.Manager.Publish(ctx, r)
	if e, ok := errors.AsType[*volume.Error](err); ok {
		c.metrics.Refused(string(e.Kind))
	}
	return err
}

// countedInstallation counts the publishes that are refused because nobody vouches for pods.
type countedInstallation struct {
	nodeserver.Installation
	metrics *telemetry.Metrics
}

// Check checks.
func (c countedInstallation) Check(ctx context.Context) error {
	err := c.Installation.Check(ctx)
	if err != nil {
		c.metrics.Refused(refusedByInstallation)
	}
	return err
}

// refusedByInstallation is the kind of refusals that are about the CSIDriver object.
const refusedByInstallation = "Installation"

// newMetrics returns the metrics of the parts, which need not be there yet.
func (p *parts) newMetrics(cfg config) *telemetry.Metrics {
	gauges := telemetry.Gauges{
		Volumes:       func() int { return p.volumes.Volumes() },
		Recovered:     func() int { return p.volumes.Recovered() },
		Summary:       p.summary,
		RoomUsed:      p.memory.Used,
		RoomLimit:     p.memory.Limit,
		StateWritable: func() bool { return p.ready.StateWritable() },
		IsUnlabelled:  func() bool { return p.mounts.RefusedContext() != nil },
	}
	p.origin.gauges(&gauges)
	m := telemetry.NewMetrics(cfg.driverName, version.Version(), gauges)
	results := []string{string(volume.ResultWritten), string(volume.ResultUnchanged), string(volume.ResultFailed)}
	kinds := []string{refusedByInstallation}
	for _, kind := range volume.Kinds() {
		kinds = append(kinds, string(kind))
	}
	m.Expect(results, kinds)
	return m
}

func (p *parts) summary() telemetry.Summary {
	found := p.volumes.Summary()
	s := telemetry.Summary{NotCurrent: map[string]int{}, Frozen: found.Frozen, Staleness: found.Staleness}
	for kind, n := range found.NotCurrent {
		s.NotCurrent[string(kind)] = n
	}
	return s
}

// serveStatus writes the state of all volumes, or of those of one pod or one namespace.
func (p *parts) serveStatus(cfg config) http.Handler {
	started := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace := r.URL.Query().Get("namespace")
		match := func(pod api.Pod) bool { return namespace == "" || pod.Namespace == namespace }
		if wanted := r.URL.Query().Get("pod"); wanted != "" {
			if namespace, name, ok := strings.Cut(wanted, "/"); !ok || namespace == "" || name == "" ||
				strings.Contains(name, "/") {
				http.Error(w, "pod is written as namespace/name", http.StatusBadRequest)
				return
			}
			match = func(pod api.Pod) bool { return pod.String() == wanted }
		}
		report := newReport(cfg, started)
		if err := p.mounts.RefusedContext(); err != nil {
			report.RefusedContext = err.Error()
		}
		report.Recovered, report.Manifests, report.Volumes = p.volumes.Ready(), p.origin.manifests(), p.volumes.Status(match)
		writeReport(w, r, report)
	})
}

// newReport returns what a report holds whatever the driver does.
func newReport(cfg config, started time.Time) statusz.Report {
	return statusz.Report{
		SchemaVersion: statusz.SchemaVersion, Driver: cfg.driverName, Version: version.Version(), Node: cfg.nodeID,
		Started: started.UTC(), Now: time.Now().UTC(), Volumes: []statusz.Volume{},
	}
}

func writeReport(w http.ResponseWriter, r *http.Request, report statusz.Report) {
	var text bytes.Buffer
	if err := statusz.Write(&text, report); err != nil {
		klog.FromContext(r.Context()).Error(err, "The driver cannot write its status")
		http.Error(w, "the driver cannot write its status; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text.Bytes()) // A client that hangs up is its own business.
}

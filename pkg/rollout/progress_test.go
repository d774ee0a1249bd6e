package rollout

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// rollingOut is a StatefulSet with so many pods of a config that are ready.
func rollingOut(config string, ready int32) *cachedWorkload {
	return &cachedWorkload{
		is: workload.Workload{
			Ref:      workload.Ref{Kind: workload.StatefulSet, Namespace: "default", Name: "db"},
			Progress: workload.Progress{Observed: true, Counts: workload.Counts{Ready: ready}},
		},
		Config: trigger.Config{{Kind: "ConfigMap", Name: "foo"}: config},
	}
}

func wantLeft(t *testing.T, p *progressTracker, h *cachedWorkload, want time.Duration) {
	t.Helper()
	left, done := p.record(h)
	if done || left != want {
		t.Errorf("left = %s, %t, want %s and not done", left, done, want)
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProgressTracker(time.Minute)
		wantLeft(t, p, rollingOut("foo-1", 1), time.Minute)
		sleep(t, 40*time.Second)
		wantLeft(t, p, rollingOut("foo-1", 1), 20*time.Second)
		wantLeft(t, p, rollingOut("foo-1", 2), time.Minute) // Progress.
		sleep(t, 50*time.Second)
		wantLeft(t, p, rollingOut("foo-1", 0), 10*time.Second) // A crash is not progress,
		wantLeft(t, p, rollingOut("foo-1", 2), 10*time.Second) // nor is getting over it.
		sleep(t, time.Hour)
		wantLeft(t, p, rollingOut("foo-1", 2), 0)
		wantLeft(t, p, rollingOut("foo-2", 0), time.Minute) // Another config begins again.
	})
}

// TestPatienceAfterTheRollout has pods fail after a rollout was done: that is not its fault.
func TestPatienceAfterTheRollout(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*workload.Progress){
		"seen done":             func(p *workload.Progress) { p.Done = true },
		"known from the status": func(p *workload.Progress) { p.Settled = true },
		"both":                  func(p *workload.Progress) { p.Done, p.Settled = true, true },
	}
	for name, arrive := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newProgressTracker(time.Minute)
				arrived := rollingOut("foo-1", 3)
				arrive(&arrived.is.Progress)
				p.record(arrived)
				sleep(t, time.Hour)
				if _, done := p.record(rollingOut("foo-1", 2)); !done {
					t.Error("an hour after it was done, the rollout counts as under way")
				}
				wantLeft(t, p, rollingOut("foo-2", 2), time.Minute)
			})
		})
	}
}

package driver

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// TestAChangeReachesEveryVolumeThatUsesTheObject is rule 61, through one watch for all (rule 57).
func TestAChangeReachesEveryVolumeThatUsesTheObject(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("web", map[string]string{"color": "red"})
		var pods []*corev1.Pod
		for i := range 5 {
			pod := b.Pod(fmt.Sprintf("web-%d", i), map[string]string{"configMap": "web"})
			b.Publish(pod)
			pods = append(pods, pod)
		}
		b.UpdateConfigMap("web", map[string]string{"color": "green", "shape": "round"})
		for _, pod := range pods {
			b.WantFile(pod, "color", "green")
			b.WantFile(pod, "shape", "round")
		}
		b.UpdateConfigMap("web", map[string]string{"shape": "square"})
		for _, pod := range pods {
			b.WantFile(pod, "shape", "square")
			b.WantNoFile(pod, "color")
		}
		if got := b.Metric("liveconfig_watches"); b.Cluster != nil && got != "1" {
			t.Errorf("%s watches for one object in five volumes, want 1", got)
		}
	})
}

// wantEventAnswered waits until the API server has done with an Event of the namespace.
func (b *rig) wantEventAnswered() {
	b.T.Helper()
	environment.Eventually(b.T, soon, func() error {
		requests, err := b.Cluster.Requests(time.Time{})
		if err != nil {
			return err
		}
		for _, r := range requests {
			if r.Resource == "events" && r.Namespace == b.Namespace && r.Code == http.StatusCreated {
				return nil
			}
		}
		return errors.New("no Event has been written yet")
	})
}

// TestNothingButOpenWatchesInQuietTimes shows that nothing polls: of a driver with volumes that nobody touches, the API
// server sees no request at all for ten seconds.
func TestNothingButOpenWatchesInQuietTimes(t *testing.T) {
	b := newRig(t) // Not parallel: the API server's audit log distinguishes users, not drivers.
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pod := b.Pod("web", map[string]string{"sources": "[{configMap: {name: web}}, {configMap: {name: none, optional: true}}]"})
	b.Publish(pod)
	b.UpdateConfigMap("web", map[string]string{"color": "green"})
	b.WantFile(pod, "color", "green")
	b.wantEventAnswered() // It is the last request that the change causes.

	const quiet = 10 * time.Second
	start := time.Now()
	time.Sleep(quiet) //nolint:forbidigo // That nothing happens meanwhile is the point.
	requests, err := b.Cluster.Requests(start)
	must(t, err)
	driver := cluster.ServiceAccountUser(environment.DriverNamespace, environment.DriverAccount)
	for _, r := range requests {
		if r.User == driver {
			t.Errorf("request in quiet times: %s", r)
		}
	}

	// The audit log does see the driver, and its watches are open: the next change comes through one of them.
	b.UpdateConfigMap("web", map[string]string{"color": "blue"})
	b.WantFile(pod, "color", "blue")
	all, err := b.Cluster.Requests(time.Time{})
	must(t, err)
	watches := 0
	for _, r := range all {
		if r.User == driver && r.Verb == "watch" && r.Namespace == b.Namespace {
			watches++
		}
	}
	if watches == 0 {
		t.Error("the audit log shows no watch of the driver at all: it would not have shown requests either")
	}
}

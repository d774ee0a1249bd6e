package rollout

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/clientmetrics"
)

// audience counts the Events of a controller by the kind of what they are about.
type audience struct {
	record.FakeRecorder

	mu    sync.Mutex // Guards heard.
	heard map[string]int
}

func (a *audience) Event(about runtime.Object, _, _, _ string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ref, ok := about.(*corev1.ObjectReference); ok {
		a.heard[ref.Kind]++
	}
}

func (a *audience) of(kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard[kind]
}

// looks returns how often workers have taken a workload from the queue.
func looks(t *testing.T, registry *prometheus.Registry) uint64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "workqueue_queue_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == queueWorkloads {
				return m.GetHistogram().GetSampleCount()
			}
		}
	}
	return 0
}

// calm returns the number of looks when there have been no more for a while.
func calm(t *testing.T, registry *prometheus.Registry) uint64 {
	t.Helper()
	for last := looks(t, registry); ; {
		sleep(t, time.Second)
		now := looks(t, registry)
		if now == last {
			return now
		}
		last = now
	}
}

// TestGuardCrowdIsCheap: one edit of a source of many workloads is one Event for each of them and a few about the source. A
// workload that waits for its turn is looked at when the edit comes, when its turn comes, and when the cache has the write.
func TestGuardCrowdIsCheap(t *testing.T) {
	t.Parallel()
	const perSecond, mostLooks = 100, 3
	objects := []runtime.Object{fooOf("shop", "one")}
	for i := range crowded {
		objects = append(objects, triggeredDeployment("shop", fmt.Sprintf("d-%d", i)))
	}
	s, heard, registry := newServer(t, objects...), &audience{heard: map[string]int{}}, prometheus.NewRegistry()
	queues, err := clientmetrics.NewQueues(registry)
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, perSecond, func(cfg *Config) { cfg.Events, cfg.Queues = heard, queues })
	s.awaitAll(t)
	before := calm(t, registry)
	if got := heard.of("Deployment"); got != crowded {
		t.Errorf("%d Events about %d workloads, want one about each", got, crowded)
	}
	if got := heard.of("ConfigMap"); got != mostSourceEvents {
		t.Errorf("%d Events about their source, want %d", got, mostSourceEvents)
	}

	if _, err := s.client.CoreV1().ConfigMaps("shop").Update(t.Context(), fooOf("shop", "two"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitAll(t)
	if got := calm(t, registry) - before; got > mostLooks*crowded {
		t.Errorf("the controller looked %d times at %d workloads, want at most %d times at each", got, crowded, mostLooks)
	}
	if got := heard.of("ConfigMap"); got != 2*mostSourceEvents {
		t.Errorf("%d Events about two versions of the source, want %d about each", got, mostSourceEvents)
	}
}

// awaitAll waits until each of the crowd was patched once more.
func (s *server) awaitAll(t *testing.T) {
	t.Helper()
	const most = 2 * time.Minute // Seconds on an idle machine: this test counts, and does not measure time.
	late := time.After(most)
	for patched := map[string]bool{}; len(patched) < crowded; {
		select {
		case name := <-s.patched:
			patched[name] = true
		case <-late:
			t.Fatalf("%d of %d workloads were patched within %s", len(patched), crowded, most)
		}
	}
}

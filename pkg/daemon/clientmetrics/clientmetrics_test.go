package clientmetrics_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/clientmetrics"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
)

func names(t *testing.T, registry *prometheus.Registry) (names []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		names = append(names, f.GetName())
	}
	return names
}

func TestQueues(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	queues, err := clientmetrics.NewQueues(registry)
	if err != nil {
		t.Fatal(err)
	}
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Millisecond)
	queue := fairqueue.NewWorkQueue(func(string) string { return "" }, limit, fairqueue.Metrics{Name: "things", Provider: queues})
	defer queue.ShutDown()
	queue.AddRateLimited("a")
	item, _ := queue.Get()
	queue.Done(item)
	want := []string{
		"workqueue_adds_total", "workqueue_depth", "workqueue_longest_running_processor_seconds", "workqueue_queue_duration_seconds",
		"workqueue_retries_total", "workqueue_unfinished_work_seconds", "workqueue_work_duration_seconds",
	}
	if got := names(t, registry); !slices.Equal(got, want) {
		t.Errorf("metrics = %q, want %q", got, want)
	}
	if _, err := clientmetrics.NewQueues(registry); err == nil {
		t.Error("the metrics were registered twice")
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if err := clientmetrics.Register(registry); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := rest.RESTClientFor(&rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{GroupVersion: &scheme.Scheme.PrioritizedVersionsAllGroups()[0], NegotiatedSerializer: scheme.Codecs},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Get().AbsPath("/none").Do(t.Context()).Error(); err == nil {
		t.Fatal("a request for nothing succeeds")
	}
	if got, want := names(t, registry), []string{"rest_client_request_duration_seconds", "rest_client_requests_total"}; !slices.Equal(got, want) {
		t.Errorf("metrics = %q, want %q", got, want)
	}
}

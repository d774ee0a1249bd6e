package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/telemetry"
)

// swallower answers every request but the first, which stays open until it is given up.
type swallower struct {
	mu    sync.Mutex // Guards the field below.
	asked int
}

func (s *swallower) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked++
	first := s.asked == 1
	s.mu.Unlock()
	if first {
		<-r.Context().Done()
		return nil, errors.New("given up")
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}}`)),
	}, nil
}

func (s *swallower) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// TestARequestThatIsSwallowedHoldsNothingUpForLong: the Event is sent again, and others after it.
func TestARequestThatIsSwallowedHoldsNothingUpForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &swallower{}
		client, err := corev1client.NewForConfigAndClient(&rest.Config{Host: "http://api"}, &http.Client{Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		events, err := telemetry.NewEvents(ctx, client, "csi.test", "node-1")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		events.Start(ctx)
		go func() { ended <- events.Run(ctx) }()
		synctest.Wait()
		events.Write(trouble("swallowed"))
		events.Write(trouble("behind it"))
		<-time.After(time.Minute)
		synctest.Wait()
		if got := s.requests(); got != 3 {
			t.Errorf("%d requests in a minute, want 3: one that is given up, the same again, and the next", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

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

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
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
		ctx, cancel := context.WithCancel(t.Context())
		events := telemetry.NewEvents(coreClient(t, s), "csi.test", "node-1")
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

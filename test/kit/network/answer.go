package network

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refuse answers as the API server does when it refuses something.
func refuse(w http.ResponseWriter, fault Fault) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(fault.Status), //nolint:gosec // It is a status of HTTP.
		Reason: reasonOf(fault.Status), Message: "the test's proxy answers " + http.StatusText(fault.Status),
	}
	body, err := json.Marshal(status)
	if err != nil {
		body = nil // Then the client makes something of the status alone.
	}
	w.Header().Set("Content-Type", "application/json")
	if fault.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(fault.RetryAfter.Seconds())))
	}
	w.WriteHeader(fault.Status)
	_, _ = w.Write(body) // The client may be gone.
}

func reasonOf(status int) metav1.StatusReason {
	return map[int]metav1.StatusReason{
		http.StatusForbidden:           metav1.StatusReasonForbidden,
		http.StatusGone:                metav1.StatusReasonExpired,
		http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
		http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
	}[status]
}

// shape makes of an answer what the request's fate is.
func (f *Front) shape(response *http.Response) error {
	fate, ok := response.Request.Context().Value(fateKey{}).(fate)
	if ok && fate.fault.After != nil {
		fate.fault.After(fate.asked)
	}
	if !ok || response.StatusCode != http.StatusOK {
		return nil
	}
	if fate.asked.Verb == "watch" {
		f.shapeWatch(response, fate)
	}
	return nil
}

func (f *Front) shapeWatch(response *http.Response, fate fate) {
	w := &watchBody{upstream: response.Body, gone: response.Request.Context().Done(), ended: make(chan struct{})}
	var timer *time.Timer
	if fate.fault.EndAfter > 0 {
		timer = time.AfterFunc(fate.fault.EndAfter, w.end)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[w] = fate.asked
	w.forget = func() {
		if timer != nil {
			timer.Stop()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watches, w)
	}
	response.Body = w
}

// watchBody is what an open watch brings.
type watchBody struct {
	upstream io.ReadCloser
	gone     <-chan struct{} // Closed when the client is.
	ended    chan struct{}   // Closed when the watch is to end.
	forget   func()

	mu       sync.Mutex // Guards the fields below.
	isSilent bool
	isEnded  bool
}

// Read is [io.Reader]. Of a silent watch it returns when the client has gone, whatever becomes of the API server.
func (w *watchBody) Read(p []byte) (int, error) {
	for {
		n, err := w.upstream.Read(p)
		silent, ended := w.state()
		switch {
		case ended:
			return 0, io.EOF
		case !silent:
			return n, err
		case err != nil:
			select {
			case <-w.gone:
			case <-w.ended:
			}
			return 0, io.EOF
		}
	}
}

// Close is [io.Closer].
func (w *watchBody) Close() error {
	w.forget()
	return w.upstream.Close()
}

func (w *watchBody) state() (silent, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isSilent, w.isEnded
}

func (w *watchBody) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isSilent = true
}

// end ends the watch, also one that waits for the API server.
func (w *watchBody) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isEnded {
		return
	}
	w.isEnded = true
	close(w.ended)
	_ = w.upstream.Close() // Its readers see the end of the stream.
}

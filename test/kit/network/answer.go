package network

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer is one of the API server's that is kept.
type answer struct {
	header http.Header
	body   []byte
}

// listKey is the same for requests that ask the same.
func (a *Request) listKey() string { return a.Resource + "/" + a.Namespace + "/" + a.Name }

// answerItself answers a request that does not reach the API server, and reports whether that is so.
func (f *Front) answerItself(w http.ResponseWriter, asked Request, fault Fault) bool {
	if fault.Status != 0 {
		refuse(w, fault)
		return true
	}
	if !fault.Stale || asked.Verb != "list" {
		return false
	}
	f.mu.Lock()
	old, known := f.answers[asked.listKey()]
	f.mu.Unlock()
	if !known {
		return false
	}
	maps.Copy(w.Header(), old.header)
	_, _ = w.Write(old.body) // The client may be gone.
	return true
}

// refuse answers as the API server does when it refuses something, or with a page.
func refuse(w http.ResponseWriter, fault Fault) {
	if fault.Page != "" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(fault.Status)
		_, _ = io.WriteString(w, fault.Page) // The client may be gone.
		return
	}
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
	switch status {
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusGone:
		return metav1.StatusReasonExpired
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusInternalServerError:
		return metav1.StatusReasonInternalError
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	case http.StatusGatewayTimeout:
		return metav1.StatusReasonTimeout
	}
	return metav1.StatusReasonUnknown
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
	switch fate.asked.Verb {
	case "watch":
		f.shapeWatch(response, fate)
	case "list":
		return f.keep(response, fate.asked)
	}
	return nil
}

// keep remembers the answer to a list if it is the first.
func (f *Front) keep(response *http.Response, asked Request) error {
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.answers[asked.listKey()]; !known {
		header := response.Header.Clone()
		header.Del("Content-Length") // It is set again.
		f.answers[asked.listKey()] = answer{header, body}
	}
	return nil
}

func (f *Front) shapeWatch(response *http.Response, fate fate) {
	w := &watchBody{upstream: response.Body, gone: response.Request.Context().Done(), ended: make(chan struct{})}
	if fate.fault.Silent {
		w.silence()
	}
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

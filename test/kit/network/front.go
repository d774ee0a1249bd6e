package network

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Cluster is what a front needs of the cluster behind it; test/kit/cluster has it.
type Cluster interface {
	// AdminConfig says where the API server is, and whom it can be known by.
	AdminConfig() *rest.Config
	// ServingCertificate is what clients of the cluster believe.
	ServingCertificate() (tls.Certificate, error)
}

// Fault is what goes wrong with requests. The zero value harms none.
type Fault struct {
	// Of says which requests it befalls; nil means all.
	Of func(Request) bool
	// Share of those is how many it befalls, evenly: with 0.5 every other one. Zero means all.
	Share float64
	// Delay is how long a request waits before anything else becomes of it.
	Delay time.Duration
	// Status is what a request is answered that does not reach the API server, with the header Retry-After unless that is
	// zero.
	Status     int
	RetryAfter time.Duration
	// EndAfter is how long a watch lasts at most, if not zero.
	EndAfter time.Duration
	// Before is called when a request comes in. If it reports true, the request is lost: it reaches no API server, and its
	// client gets no answer.
	Before func(Request) (isLost bool)
	// After is called when the API server has answered, before the client hears it.
	After func(Request)
}

// Front stands before a real API server, speaks HTTP/2 to both sides and passes everything on, until it is asked to do
// worse. It knows clients by their tokens: certificates do not reach beyond it. All methods may be called at any time, by
// many goroutines.
type Front struct {
	address  string
	server   *http.Server
	upstream *http.Transport
	handlers sync.WaitGroup
	served   chan error

	mu      sync.Mutex // Guards the fields below.
	faults  []*active
	asked   []Request
	watches map[*watchBody]Request // Those that are open.
}

// NewFront returns a front of the cluster's API server that is closed when the test ends.
func NewFront(t testing.TB, c Cluster) *Front {
	t.Helper()
	f, err := serveFront(context.WithoutCancel(t.Context()), c)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, "front", f)
	return f
}

func serveFront(ctx context.Context, c Cluster) (*Front, error) {
	certificate, err := c.ServingCertificate()
	if err != nil {
		return nil, err
	}
	admin := c.AdminConfig()
	target, err := url.Parse(admin.Host)
	if err != nil {
		return nil, fmt.Errorf("parse where the API server is: %w", err)
	}
	trust, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}})
	if err != nil {
		return nil, fmt.Errorf("trust the API server: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Front{
		address:  listener.Addr().String(),
		upstream: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true},
		served:   make(chan error, 1),
		watches:  map[*watchBody]Request{},
	}
	f.server = &http.Server{
		Handler:           f.handler(target),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // Clients that hang up are not news.
	}
	go func() { f.served <- f.server.ServeTLS(listener, "", "") }()
	return f, nil
}

// Address is where the front listens, a host and a port, as for [New].
func (f *Front) Address() string { return f.address }

// URL is where clients find the front.
func (f *Front) URL() string { return "https://" + f.address }

// Kubeconfig writes a kubeconfig that is the same as another one, but leads to the front. It must be one with a token.
func (f *Front) Kubeconfig(from, to string) error { return redirect(from, to, f.URL()) }

// Set makes these the faults of requests that begin from now on; none of them heals the front. Watches that are open go
// on as they were opened.
func (f *Front) Set(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
	for _, fault := range faults {
		f.faults = append(f.faults, &active{Fault: fault})
	}
}

// active is a fault that is in force.
type active struct {
	Fault
	due float64 // Of the next request that it may befall; it does when that comes to one.
}

// befalls reports whether the fault befalls a request.
func (a *active) befalls(asked Request) bool {
	switch {
	case a.Of != nil && !a.Of(asked):
		return false
	case a.Share == 0:
		return true
	}
	a.due += a.Share
	if a.due < 1 {
		return false
	}
	a.due--
	return true
}

// Silence makes open watches bring nothing from now on, for ever, and not end, as if their server had forgotten them. It
// returns how many there were.
func (f *Front) Silence(of func(Request) bool) int {
	return f.each(of, (*watchBody).silence)
}

// Watching returns how many watches are open.
func (f *Front) Watching(of func(Request) bool) int {
	return f.each(of, func(*watchBody) {})
}

// EndWatches ends open watches cleanly. It returns how many there were.
func (f *Front) EndWatches(of func(Request) bool) int {
	return f.each(of, (*watchBody).end)
}

func (f *Front) each(of func(Request) bool, do func(*watchBody)) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for w, r := range f.watches {
		if of == nil || of(r) {
			do(w)
			n++
		}
	}
	return n
}

// Asked returns the requests that have come in so far and match, in their order; nil means all.
func (f *Front) Asked(of func(Request) bool) []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []Request
	for _, r := range f.asked {
		if of == nil || of(r) {
			found = append(found, r)
		}
	}
	return found
}

// Close ends everything that is open and returns when nothing is left.
func (f *Front) Close() error {
	err := f.server.Close()
	if served := <-f.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	f.EndWatches(nil)
	f.handlers.Wait()
	f.upstream.CloseIdleConnections()
	return err
}

// handler passes requests on that no fault keeps.
func (f *Front) handler(target *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = target.Host },
		Transport:      f.upstream,
		FlushInterval:  -1, // A watch brings each event at once.
		ModifyResponse: f.shape,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.handlers.Add(1)
		defer f.handlers.Done()
		asked, fault := f.take(r)
		if !wait(r.Context(), fault.Delay) {
			return
		}
		if fault.Before != nil && fault.Before(asked) {
			panic(http.ErrAbortHandler) // As the documentation of net/http says.
		}
		if fault.Status != 0 {
			refuse(w, fault)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), fateKey{}, fate{asked, fault})))
	})
}

// fate is what a request is and what goes wrong with it. It travels with the request's context.
type fate struct {
	asked Request
	fault Fault
}

type fateKey struct{}

// take records a request and returns everything that goes wrong with it as one fault.
func (f *Front) take(r *http.Request) (Request, Fault) {
	asked := requestOf(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, asked)
	var all Fault
	for _, fault := range f.faults {
		if !fault.befalls(asked) {
			continue
		}
		all.Delay += fault.Delay
		if all.Status == 0 {
			all.Status, all.RetryAfter = fault.Status, fault.RetryAfter
		}
		if all.EndAfter == 0 {
			all.EndAfter = fault.EndAfter
		}
		if all.Before == nil {
			all.Before = fault.Before
		}
		if all.After == nil {
			all.After = fault.After
		}
	}
	return asked, all
}

// wait reports whether the context still stands after that time.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

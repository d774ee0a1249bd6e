package fleet

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Order is what a crowd in another process is to do.
type Order struct {
	// Start are numbers of nodes to start.
	Start []int
	// Await is how long to wait until all watches are open; zero not to wait.
	Await time.Duration
}

// Answer is what it answers when that is done.
type Answer struct {
	// Error is why it is not done.
	Error string
	Report
}

// Serve runs the commands of the input on a fleet until the input ends, and returns why.
func Serve(ctx context.Context, c *Crowd, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var order Order
		if err := orders.Decode(&order); err != nil {
			return err
		}
		var answer Answer
		if err := c.do(ctx, order); err != nil {
			answer.Error = err.Error()
		}
		answer.Report = c.Take()
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func (c *Crowd) do(ctx context.Context, order Order) error {
	for _, n := range order.Start {
		if err := c.Start(n); err != nil { //nolint:contextcheck // Nodes outlive the order.
			return err
		}
	}
	if order.Await == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, order.Await)
	defer cancel()
	return c.AwaitOpen(ctx)
}

// Sighting is that a node has learnt of a version of an object.
type Sighting struct {
	Node          int
	Object, Value string
	At            time.Time
}

// Verb is what a request does.
type Verb string

// The verbs.
const (
	List  Verb = "list"
	Watch Verb = "watch"
	Get   Verb = "get"
)

// Request is one that a node has sent.
type Request struct {
	Node           int
	Verb           Verb
	Object         string
	Sent, Answered time.Time
	// Code is the HTTP status, or zero for no answer.
	Code int
}

// Report is what a crowd has seen since the one before.
type Report struct {
	Sightings []Sighting
	Requests  []Request
	// Received are bytes of connections, encrypted as they come. Dialled is how many connections were made.
	Received int64
	Dialled  int
	// Open is how many watches are open now, and Connected how many connections.
	Open, Connected int
}

// Log collects what nodes see.
type Log struct {
	mu      sync.Mutex // Guards now.
	changed *sync.Cond // That Open has changed.
	now     Report
}

func newLog() *Log {
	l := &Log{}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Take returns what there is, and begins again.
func (l *Log) Take() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := l.now
	l.now = Report{Open: report.Open, Connected: report.Connected}
	return report
}

// Peek returns the requests since the last Take.
func (l *Log) Peek() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Request(nil), l.now.Requests...)
}

// AwaitSightings returns when so many have been made since the last Take, or ctx ends.
func (l *Log) AwaitSightings(ctx context.Context, n int) error {
	return l.await(ctx, func() bool { return len(l.now.Sightings) >= n })
}

// AwaitRequests returns when so many have ended since the last Take, or ctx ends.
func (l *Log) AwaitRequests(ctx context.Context, n int) error {
	return l.await(ctx, func() bool { return len(l.now.Requests) >= n })
}

func (l *Log) awaitOpen(ctx context.Context, n int) error {
	return l.await(ctx, func() bool { return l.now.Open == n })
}

// await returns when done does, which is asked with the lock held.
func (l *Log) await(ctx context.Context, done func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !done() {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.changed.Wait()
	}
	return nil
}

// note changes the report.
func (l *Log) note(change func(*Report)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.now)
	l.changed.Broadcast()
}

func (l *Log) see(node int, object, value string) {
	s := Sighting{Node: node, Object: object, Value: value, At: time.Now()}
	l.note(func(r *Report) { r.Sightings = append(r.Sightings, s) })
}

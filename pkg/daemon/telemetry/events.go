package telemetry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

// maxNote is the longest message that the API server takes, in bytes.
const maxNote = 1024

// How long the API server is left alone after it could not be reached. The first time it is up to chance, because nodes that
// have lost it at the same moment must not come back at the same moment.
const (
	retryPause       = 10 * time.Second
	firstPause       = time.Second
	firstPauseJitter = 9
)

// Event is what a pod's user is told.
type Event struct {
	Pod api.Pod
	// Volume is the volume's name in the pod spec.
	Volume string
	// Warning tells trouble from news.
	Warning bool
	// Reason is a CamelCase word that people filter by.
	Reason string
	// Note is for people; long ones are cut.
	Note string
}

// Events writes Events on pods. Trouble is sent at once. News waits a moment and goes out slowly: a change that reaches all
// volumes of a node, or of all nodes, must not cost the API server and the update a request for each while it is going on.
type Events struct {
	sender sender
	woken  chan struct{} // Has something when there is more to send than the sender knows of.
	ended  chan struct{} // Closed when nothing is sent any more.

	mu    sync.Mutex // Guards the fields below.
	queue *outbox
	open  bool               // While what is written is sent.
	stop  context.CancelFunc // Ends the sending; nil before Start.
}

// NewEvents returns a writer of Events that are reported by the driver of that name on the node, through a client of core/v1.
// Equal Events are counted in one. What is written before Start is lost.
func NewEvents(client rest.Interface, driver, node string) *Events {
	return &Events{
		sender: newSender(client, driver, node), woken: make(chan struct{}, 1), ended: make(chan struct{}),
		queue: newOutbox(),
	}
}

// Start begins to send what is written, until ctx ends. It does not wait for the API server. Call Run after it.
func (e *Events) Start(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, e.stop = context.WithCancel(ctx)
	e.open = true
	go e.send(ctx)
}

// Run ends the sending when ctx ends. What waits is lost then.
func (e *Events) Run(ctx context.Context) error {
	<-ctx.Done()
	e.mu.Lock()
	e.open = false
	e.stop()
	e.mu.Unlock()
	<-e.ended
	return nil
}

// Write queues an Event. It does not wait for the API server.
func (e *Events) Write(event Event) {
	event.Note = cut(event.Note)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open && e.queue.add(event, time.Now()) {
		e.wake()
	}
}

// wake has the sender look again. One word waits for it at most.
func (e *Events) wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

// Dropped returns how many Events were not sent because there were too many.
func (e *Events) Dropped() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queue.dropped
}

// send sends one Event after the other until ctx ends.
func (e *Events) send(ctx context.Context) {
	defer close(e.ended)
	for ctx.Err() == nil {
		if next, at := e.next(); next == nil {
			e.rest(ctx, at)
		} else if err := e.sender.send(ctx, next); err != nil {
			e.noteFailure(ctx, next, err)
		}
	}
}

// next returns what to send now, or else when there will be something; the zero time means that nothing waits.
func (e *Events) next() (*letter, time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queue.next(time.Now())
}

// rest waits until then, unless it is zero, or until there is more.
func (e *Events) rest(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-e.woken:
	case <-due:
	}
}

// noteFailure gives an Event up that the API server does not want, and keeps one that has not reached it.
func (e *Events) noteFailure(ctx context.Context, l *letter, err error) {
	logger := klog.FromContext(ctx).WithValues(logkeys.Pod, l.Pod.String(), logkeys.Reason, l.Reason)
	var answer apierrors.APIStatus
	switch {
	case ctx.Err() != nil:
	case isGone(err):
		logger.V(4).Info("An Event came too late", "err", err)
	case errors.As(err, &answer):
		logger.Error(err, "An Event was refused by the API server")
	case l.tries+1 == mostTries:
		logger.Error(err, "An Event is given up")
	default:
		logger.Error(err, "An Event could not be sent; it will be tried again")
		pause := retryPause
		if l.tries == 0 {
			pause = wait.Jitter(firstPause, firstPauseJitter)
		}
		e.putBack(l)
		over, cancel := context.WithTimeout(ctx, pause)
		defer cancel()
		<-over.Done()
	}
}

// putBack keeps an Event to be sent again.
func (e *Events) putBack(l *letter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue.putBack(l)
}

// cut shortens a note without leaving half a character.
func cut(note string) string {
	const dots = "..."
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-len(dots)], "") + dots
}

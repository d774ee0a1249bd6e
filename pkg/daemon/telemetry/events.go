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

// How long the driver waits before it sends again after the API server could not be reached. The
// first wait is random: nodes that lost the API server at the same moment must not return at the
// same moment.
const (
	retryPause           = 10 * time.Second
	firstSendRetry       = time.Second
	firstSendRetryJitter = 9
)

// Event is the content of a Kubernetes Event about a volume of a pod.
type Event struct {
	Pod api.Pod
	// Volume is the volume's name in the pod spec.
	Volume string
	// Warning is the type of the Event: Warning, else Normal.
	Warning bool
	// Reason is a CamelCase word that people filter by.
	Reason string
	// Note is the message. Write shortens a long one.
	Note string
}

// Events writes Events on pods. It sends warnings at once. Normal Events wait and are sent slowly:
// a change that reaches every volume of a node, or of all nodes, must not cost a request for each
// while the update runs.
type Events struct {
	sender sender
	woken  chan struct{} // Receives when the queue has an Event that the sender does not wait for.
	ended  chan struct{} // Closed when the sender has ended.

	mu    sync.Mutex // Guards the fields below.
	queue *eventQueue
	open  bool               // True between Start and the end of Run.
	stop  context.CancelFunc // Ends the sender; nil before Start.
}

// NewEvents returns a writer of Events. They name the driver and the node as their source. Client
// is for core/v1. Equal Events are counted in one. An Event that is written before Start is lost.
func NewEvents(client rest.Interface, driver, node string) *Events {
	return &Events{
		sender: newSender(client, driver, node), woken: make(chan struct{}, 1), ended: make(chan struct{}),
		queue: newEventQueue(),
	}
}

// Start sends what is written until ctx ends. It does not wait for the API server. Call Run after
// it.
func (e *Events) Start(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, e.stop = context.WithCancel(ctx)
	e.open = true
	go e.send(ctx)
}

// Run returns after ctx has ended and the sender with it. Events that still wait are lost.
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

// wake makes the sender look at the queue again.
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

// next is [eventQueue.next], safe for concurrent use.
func (e *Events) next() (*queuedEvent, time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queue.next(time.Now())
}

// rest waits for a time, unless that is zero, or for wake.
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

// noteFailure drops an Event that the API server has refused. It queues one again that has not
// reached the API server.
func (e *Events) noteFailure(ctx context.Context, failed *queuedEvent, err error) {
	logger := klog.FromContext(ctx).WithValues(logkeys.Pod, failed.Pod.String(), logkeys.Reason, failed.Reason)
	var answer apierrors.APIStatus
	switch {
	case ctx.Err() != nil:
	case isGone(err):
		logger.V(4).Info("The namespace of an Event is being deleted", "err", err)
	case errors.As(err, &answer):
		logger.Error(err, "The API server refused an Event")
	case failed.tries+1 == maxTries:
		logger.Error(err, "The driver cannot send an Event, and drops it")
	default:
		logger.Error(err, "The driver cannot send an Event, and will try again")
		pause := retryPause
		if failed.tries == 0 {
			pause = wait.Jitter(firstSendRetry, firstSendRetryJitter)
		}
		e.putBack(failed)
		over, cancel := context.WithTimeout(ctx, pause)
		defer cancel()
		<-over.Done()
	}
}

// putBack is [eventQueue.putBack], safe for concurrent use.
func (e *Events) putBack(failed *queuedEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue.putBack(failed)
}

// cut shortens a note without leaving half a character.
func cut(note string) string {
	const dots = "..."
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-len(dots)], "") + dots
}

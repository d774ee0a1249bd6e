package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// maxNote is the longest message that the API server takes, in bytes.
const maxNote = 1024

// Of each reason, a volume's Events are sent at once up to a burst, then at a slow rate; the rest is dropped. A busy
// source must not cost the API server a request for each of its changes.
const (
	eventBurst = 10
	eventRate  = 1.0 / 60 // Per second.
	// eventKeys is how many volumes and reasons have their rates remembered.
	eventKeys = 4096
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

// Events writes Events on pods.
type Events struct {
	client      corev1client.EventsGetter
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder

	mu      sync.Mutex // Guards the fields below.
	limits  *record.EventSourceObjectSpamFilter
	dropped int
}

// NewEvents returns a writer of Events that are reported by the driver of that name on the node. Equal Events are counted
// in one. What is written before Start is lost; ctx is for the log lines of the client library.
func NewEvents(ctx context.Context, client corev1client.EventsGetter, driver, node string) (*Events, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the pod type: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{
		// What is too much has been dropped, and counted, before. The library would combine Events of different volumes.
		BurstSize: math.MaxInt32, MaxEvents: math.MaxInt32,
	}))
	recorder := broadcaster.NewRecorder(scheme, corev1.EventSource{Component: driver, Host: node})
	limits := record.NewEventSourceObjectSpamFilter(eventKeys, eventBurst, eventRate, wallClock{}, spamKey)
	return &Events{client: client, broadcaster: broadcaster, recorder: recorder, limits: limits}, nil
}

// wallClock is the clock of the client library's filters.
type wallClock struct{}

// Now returns the time.
func (wallClock) Now() time.Time { return time.Now() }

// Since returns how long ago t was.
func (wallClock) Since(t time.Time) time.Duration { return time.Since(t) }

// spamKey says which Events share a rate: those of one reason about one volume of one pod.
func spamKey(e *corev1.Event) string {
	return string(e.InvolvedObject.UID) + "/" + e.InvolvedObject.FieldPath + "/" + e.Reason
}

// Start begins to send what is written, until ctx ends. It does not wait for the API server. Call Run after it.
func (e *Events) Start(ctx context.Context) {
	e.broadcaster.StartRecordingToSink(sink{ctx: ctx, events: e.client.Events("")})
}

// Run ends the sending when ctx ends.
func (e *Events) Run(ctx context.Context) error {
	<-ctx.Done()
	e.broadcaster.Shutdown()
	return nil
}

// Write queues an Event. It does not wait for the API server.
func (e *Events) Write(event Event) {
	regarding := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: event.Pod.Namespace, Name: event.Pod.Name, UID: types.UID(event.Pod.UID),
		FieldPath: "spec.volumes{" + event.Volume + "}",
	}
	if e.isTooMuch(&corev1.Event{InvolvedObject: *regarding, Reason: event.Reason}) {
		return
	}
	eventType := corev1.EventTypeNormal
	if event.Warning {
		eventType = corev1.EventTypeWarning
	}
	e.recorder.Event(regarding, eventType, event.Reason, cut(event.Note))
}

// isTooMuch drops and counts what is over the rate.
func (e *Events) isTooMuch(event *corev1.Event) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	tooMuch := e.limits.Filter(event)
	if tooMuch {
		e.dropped++
	}
	return tooMuch
}

// Dropped returns how many Events were not sent because there were too many of their sort.
func (e *Events) Dropped() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped
}

// answerLimit is how long the API server has to take an Event: one that it never answers must not hold up all others.
const answerLimit = 30 * time.Second

// sink names Events by what they say. A restarted driver that has the same to say finds the Event of the earlier run, which
// it can neither list nor read, by its name, and makes it new again.
type sink struct {
	ctx    context.Context // Ends every request; the interface has no place for it.
	events corev1client.EventInterface
}

var _ record.EventSink = sink{}

// Create makes an Event, or touches the one that says the same.
func (s sink) Create(event *corev1.Event) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, answerLimit)
	defer cancel()
	event = event.DeepCopy()
	event.Name = nameOf(event)
	created, err := s.events.CreateWithEventNamespaceWithContext(ctx, event)
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	patch, err := json.Marshal(map[string]any{"lastTimestamp": event.LastTimestamp})
	if err != nil {
		return nil, err
	}
	return s.Patch(event, patch)
}

// Update replaces an Event.
func (s sink) Update(event *corev1.Event) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, answerLimit)
	defer cancel()
	return s.events.UpdateWithEventNamespaceWithContext(ctx, event)
}

// Patch changes an Event.
func (s sink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, answerLimit)
	defer cancel()
	return s.events.PatchWithEventNamespaceWithContext(ctx, event, data)
}

// nameOf returns the same name for Events that say the same about the same volume.
func nameOf(e *corev1.Event) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{spamKey(e), e.Type, e.Message, e.Source.Host}))
	const enough = 8 // Of its bytes, for the Events of one pod.
	name := fmt.Sprintf("%s.%x", e.InvolvedObject.Name, sum[:enough])
	const longest = 253
	return strings.TrimLeft(name[max(0, len(name)-longest):], ".-") // A name begins with a letter or a digit.
}

// cut shortens a note without leaving half a character.
func cut(note string) string {
	const dots = "..."
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-len(dots)], "") + dots
}

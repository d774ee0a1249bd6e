package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
)

// requestTimeout is how long one request may take. One that is never answered must not delay all
// other Events.
const requestTimeout = 30 * time.Second

// sentEvents is how many sent Events the driver remembers, to count them up when they are written
// again.
const sentEvents = 4096

const eventsResource = "events"

// sender sends Events to the API server. The name of an Event is a hash of its content. So a
// restarted driver, which may neither list nor read Events, finds the equal Event of the earlier
// run by its name and updates it. It is not safe for concurrent use.
type sender struct {
	client rest.Interface
	from   corev1.EventSource
	sent   *lru.Cache // A sent by the Event's name.
}

// sent is what the driver remembers of an Event that the API server has.
type sent struct {
	first metav1.Time
	count int32
}

func newSender(client rest.Interface, driver, node string) sender {
	return sender{client: client, from: corev1.EventSource{Component: driver, Host: node}, sent: lru.New(sentEvents)}
}

// send creates an Event, or counts up the equal one.
func (s sender) send(ctx context.Context, queued *queuedEvent) error {
	event := s.event(queued)
	answer, err := s.write(ctx, event)
	if err == nil {
		s.sent.Add(event.Name, sent{answer.FirstTimestamp, answer.Count})
	}
	return err
}

// event returns an Event as the object of core/v1.
func (s sender) event(queued *queuedEvent) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: queued.Pod.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: queued.Pod.Namespace, Name: queued.Pod.Name,
			UID: types.UID(queued.Pod.UID), FieldPath: "spec.volumes{" + queued.Volume + "}",
		},
		Reason: queued.Reason, Message: queued.Note, Type: corev1.EventTypeNormal, Count: 1, Source: s.from,
		FirstTimestamp: metav1.NewTime(queued.written), LastTimestamp: metav1.NewTime(queued.written),
		ReportingController: s.from.Component, ReportingInstance: s.from.Host,
	}
	if queued.Warning {
		e.Type = corev1.EventTypeWarning
	}
	e.Name = nameOf(e)
	return e
}

func (s sender) write(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	known, _ := s.sent.Get(event.Name)
	if earlier, ok := known.(sent); ok {
		event.Count, event.FirstTimestamp = earlier.count+1, earlier.first
		answer, err := s.patch(ctx, event, map[string]any{"count": event.Count, "lastTimestamp": event.LastTimestamp})
		if !apierrors.IsNotFound(err) { // Events live for an hour.
			return answer, err
		}
	}
	answer, err := s.create(ctx, event)
	if !apierrors.IsAlreadyExists(err) {
		return answer, err
	}
	return s.patch(ctx, event, map[string]any{"lastTimestamp": event.LastTimestamp})
}

func (s sender) create(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	return do(ctx, s.client.Post().Namespace(event.Namespace).Resource(eventsResource).Body(event))
}

func (s sender) patch(ctx context.Context, event *corev1.Event, changes map[string]any) (*corev1.Event, error) {
	body, err := json.Marshal(changes)
	if err != nil {
		return nil, err
	}
	return do(ctx, s.client.Patch(types.StrategicMergePatchType).Namespace(event.Namespace).Resource(eventsResource).
		Name(event.Name).Body(body))
}

// do sends a request and returns the Event that it is answered with.
func do(ctx context.Context, request *rest.Request) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer := &corev1.Event{}
	return answer, request.Do(ctx).Into(answer)
}

// isGone reports whether an Event was refused because its namespace is being deleted.
func isGone(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }

// nameOf returns the name of an Event. Events with equal content about one volume have one name.
func nameOf(e *corev1.Event) string {
	about := string(e.InvolvedObject.UID) + "/" + e.InvolvedObject.FieldPath + "/" + e.Reason
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{about, e.Type, e.Message, e.Source.Host}))
	const enough = 8 // Of its bytes, for the Events of one pod.
	name := fmt.Sprintf("%s.%x", e.InvolvedObject.Name, sum[:enough])
	const longest = 253
	return strings.TrimLeft(name[max(0, len(name)-longest):], ".-") // A name begins with a letter or a digit.
}

package telemetry

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
}

// NewEvents returns a writer of Events that are reported by the driver of that name on the node. Equal Events are counted
// in one. Nothing is sent before Run; ctx is for the log lines of the client library.
func NewEvents(ctx context.Context, client corev1client.EventsGetter, driver, node string) (*Events, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the pod type: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{
		BurstSize: eventBurst, QPS: eventRate, SpamKeyFunc: spamKey,
	}))
	recorder := broadcaster.NewRecorder(scheme, corev1.EventSource{Component: driver, Host: node})
	return &Events{client: client, broadcaster: broadcaster, recorder: recorder}, nil
}

// spamKey says which Events share a rate: those of one reason about one volume of one pod.
func spamKey(e *corev1.Event) string {
	return string(e.InvolvedObject.UID) + "/" + e.InvolvedObject.FieldPath + "/" + e.Reason
}

// Run sends Events until ctx ends.
func (e *Events) Run(ctx context.Context) error {
	defer e.broadcaster.Shutdown()
	e.broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: e.client.Events("")})
	<-ctx.Done()
	return nil
}

// Write queues an Event. It does not wait for the API server.
func (e *Events) Write(event Event) {
	regarding := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: event.Pod.Namespace, Name: event.Pod.Name, UID: types.UID(event.Pod.UID),
		FieldPath: "spec.volumes{" + event.Volume + "}",
	}
	eventType := corev1.EventTypeNormal
	if event.Warning {
		eventType = corev1.EventTypeWarning
	}
	e.recorder.Event(regarding, eventType, event.Reason, cut(event.Note))
}

// cut shortens a note without leaving half a character.
func cut(note string) string {
	const dots = "..."
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-len(dots)], "") + dots
}

package describe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/cluster"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/describe/description"
)

// shownEvents is how many Events are shown, the newest.
const shownEvents = 5

// events are the Events of a namespace that concern liveconfig, or why they are not known.
type events struct {
	events []corev1.Event
	err    error
}

// readEvents adds the newest Events about the workload and its pods.
func (d *report) readEvents(ctx context.Context) {
	all := d.eventsIn(ctx, d.Meta.Namespace)
	if all.err != nil {
		d.addUnknown(description.Unknown{
			What: "some Events", Why: all.err.Error(), Type: fmt.Sprintf("kubectl -n %s auth can-i list events", d.Meta.Namespace),
		})
	}
	about := map[string]bool{string(d.Meta.UID): true}
	for _, pod := range d.running {
		about[string(pod.UID)] = true
	}
	for i := range all.events {
		e := &all.events[i]
		if about[string(e.InvolvedObject.UID)] && d.concerns(e) {
			d.Events = append(d.Events, eventOf(e))
		}
	}
	slices.SortStableFunc(d.Events, func(a, b description.Event) int { return b.Last.Compare(a.Last) })
	d.Events = d.Events[:min(len(d.Events), shownEvents)]
}

// eventsIn reads the Events of a namespace that the driver and the controller have written, and
// those of the kubelet about volumes that it could not mount. Others may be many.
func (t *describer) eventsIn(ctx context.Context, namespace string) events {
	if known, isKnown := t.events[namespace]; isKnown {
		return known
	}
	var found events
	var errs []error
	for _, selector := range []string{
		"source=" + t.Driver, "source=" + api.ControllerName, "source=" + cluster.KubeletName + ",reason=FailedMount",
	} {
		list, err := t.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found.events = append(found.events, list.Items...)
	}
	if len(errs) > 0 {
		found.err = errs[0] // The others are the same.
	}
	t.events[namespace] = found
	return found
}

// concerns reports whether an Event is about volumes of liveconfig: of the kubelet's some are about
// others.
func (d *report) concerns(e *corev1.Event) bool {
	if from(e) != cluster.KubeletName {
		return true
	}
	return slices.ContainsFunc(d.Volumes, func(v description.Volume) bool {
		return strings.Contains(e.Message, fmt.Sprintf("volume %q", v.Name))
	})
}

func from(e *corev1.Event) string {
	if e.Source.Component != "" {
		return e.Source.Component
	}
	return e.ReportingController
}

func eventOf(e *corev1.Event) description.Event {
	return description.Event{
		Type: e.Type, Reason: e.Reason, Last: cluster.LastSeen(e), Count: max(1, e.Count), From: from(e), Message: strings.TrimSpace(e.Message),
		Object: strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name,
	}
}

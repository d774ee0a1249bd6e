package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/description"
)

const (
	// shownEvents is how many Events are told of, the newest.
	shownEvents = 5
	// controllerName is what the rollout controller calls itself in Events, and kubeletName the kubelet.
	controllerName = "liveconfig-controller"
	kubeletName    = "kubelet"
)

// told are the Events of a namespace that concern liveconfig, or why they are not known.
type told struct {
	events []corev1.Event
	err    error
}

// readEvents tells of the newest Events about the workload and its pods.
func (d *tale) readEvents(ctx context.Context) {
	all := d.eventsIn(ctx, d.meta.Namespace)
	if all.err != nil {
		d.unknown("some Events", all.err.Error(), fmt.Sprintf("kubectl -n %s auth can-i list events", d.meta.Namespace))
	}
	about := map[string]bool{string(d.meta.UID): true}
	for _, pod := range d.running {
		about[string(pod.UID)] = true
	}
	for i := range all.events {
		e := &all.events[i]
		if about[string(e.InvolvedObject.UID)] && d.concerns(e) {
			d.Events = append(d.Events, toldOf(e))
		}
	}
	slices.SortStableFunc(d.Events, func(a, b description.Event) int { return b.Last.Compare(a.Last) })
	d.Events = d.Events[:min(len(d.Events), shownEvents)]
}

// eventsIn reads the Events of a namespace that the driver and the controller have written, and those of the kubelet about
// volumes that it could not mount. Others may be many.
func (t *teller) eventsIn(ctx context.Context, namespace string) told {
	if known, isKnown := t.events[namespace]; isKnown {
		return known
	}
	var found told
	var errs []error
	for _, selector := range []string{
		"source=" + t.driver, "source=" + controllerName, "source=" + kubeletName + ",reason=FailedMount",
	} {
		list, err := t.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found.events = append(found.events, list.Items...)
	}
	if len(errs) > 0 {
		found.err = errs[0] // The others say the same.
	}
	t.events[namespace] = found
	return found
}

// concerns reports whether an Event is about volumes of liveconfig: of the kubelet's some are about others.
func (d *tale) concerns(e *corev1.Event) bool {
	if from(e) != kubeletName {
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

func toldOf(e *corev1.Event) description.Event {
	return description.Event{
		Type: e.Type, Reason: e.Reason, Last: last(e), Count: max(1, e.Count), From: from(e), Message: strings.TrimSpace(e.Message),
		Object: strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name,
	}
}

// last returns when an Event was last counted up.
func last(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

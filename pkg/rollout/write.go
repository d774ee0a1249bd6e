package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// write is all that an action writes to a workload: one request, hence one revision at most.
type write []operation

// newWrite returns the write of a decision. It names the version that the decision was made for:
// anyone who has changed the workload meanwhile makes it a conflict.
//
// It is a JSON patch and not an applied configuration. The manager that applies one owns the list
// items that its fields are in, such as a container of which one variable is written, and another
// manager that applies a manifest without that container can then not remove it. A patch owns the
// very fields it changes.
func (c *Controller) newWrite(h *cachedWorkload, d plan.Decision) (write, error) {
	changes, err := template.Point(h.is.Template, c.placeOf(h), d.Names)
	if err != nil {
		return nil, fmt.Errorf("point %s to its copies: %w", h.is.Ref, err)
	}
	w := write{{"replace", "/metadata/resourceVersion", h.is.ResourceVersion}}
	for _, change := range changes {
		w = append(w, operation{"replace", "/spec/template" + change.Pointer, change.To})
	}
	config := ""
	if d.Config != nil {
		config = d.Config.String()
	}
	w = w.set(h.is.Template.Annotations, entry{"/spec/template/metadata/annotations", trigger.ConfigAnnotation, config})
	w = w.set(h.is.Labels, entry{"/metadata/labels", trigger.RolloutLabel, d.Label})
	annotations := maps.Clone(h.is.Annotations)
	if d.Action == plan.RecordUndo {
		for key, value := range c.lostWishes(h) {
			w = w.set(annotations, entry{"/metadata/annotations", key, value})
			annotations = merged(annotations, key, value)
		}
	}
	return w.set(annotations, entry{"/metadata/annotations", trigger.UndoneAnnotation, undone(h, d)}), nil
}

// lostWishes returns what a user wished of a Deployment that has just been undone: `kubectl rollout
// undo` replaces its annotations by those that it had when the old revision was its newest.
func (c *Controller) lostWishes(h *cachedWorkload) map[string]string {
	mark := trigger.ParseMark(h.is.Labels[trigger.RolloutLabel])
	if h.is.Kind != workload.Deployment || mark.IsFor(h.Config) || mark.IsUndoneFor(h.Config) {
		return nil
	}
	revisions := c.caches.revisionsOf(h)
	for _, r := range slices.Backward(revisions) {
		if r.Config != h.is.Template.Annotations[trigger.ConfigAnnotation] {
			lost := maps.Clone(r.Wishes) // It is the one that was undone.
			maps.DeleteFunc(lost, func(key, _ string) bool { _, there := h.is.Annotations[key]; return there })
			return lost
		}
	}
	return nil
}

func merged(have map[string]string, key, value string) map[string]string {
	if have == nil {
		have = map[string]string{}
	}
	have[key] = value
	return have
}

// undone returns what the annotation of that name must have.
func undone(h *cachedWorkload, d plan.Decision) string {
	if d.KeepsUndone {
		return h.is.Annotations[trigger.UndoneAnnotation]
	}
	if d.Action != plan.RecordUndo {
		return ""
	}
	text, err := json.Marshal(trigger.Undone{At: time.Now().UTC().Truncate(time.Second), Config: d.Config})
	if err != nil {
		panic(err) // Times and the JSON of a config have no way not to be JSON.
	}
	return string(text)
}

// entry is an entry of the map at a path. An empty value stands for no entry.
type entry struct{ path, key, value string }

// set appends the operation that changes a map, which has these entries now, to have the entry.
func (w write) set(have map[string]string, e entry) write {
	before, exists := have[e.key]
	at := e.path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(e.key)
	switch {
	case e.value == before && (exists || e.value == ""):
		return w
	case e.value == "":
		return append(w, operation{Op: "remove", Path: at})
	case len(have) == 0:
		return append(w, operation{"add", e.path, map[string]string{e.key: e.value}})
	default:
		return append(w, operation{"add", at, e.value})
	}
}

// send sends a write and returns the version it led to. If the workload is not any more what the
// write was made for, the error is a conflict.
func (c *Controller) send(ctx context.Context, h *cachedWorkload, w write) (string, error) {
	body, err := json.Marshal(w)
	if err != nil {
		return "", fmt.Errorf("encode the patch: %w", err)
	}
	switch apps := c.cfg.Client.AppsV1(); h.is.Kind {
	case workload.Deployment:
		return sendTo(ctx, apps.Deployments(h.Namespace), h, body)
	case workload.StatefulSet:
		return sendTo(ctx, apps.StatefulSets(h.Namespace), h, body)
	default:
		return sendTo(ctx, apps.DaemonSets(h.Namespace), h, body)
	}
}

// workloads is what sending needs of a typed client.
type workloads[O metav1.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (O, error)
	Patch(
		ctx context.Context, name string, kind types.PatchType, body []byte, options metav1.PatchOptions,
		subresources ...string,
	) (O, error)
}

// sendTo makes a conflict also of what the API server refuses before it compares versions: a patch
// of what somebody has removed meanwhile, or of a workload that is gone.
func sendTo[O metav1.Object](ctx context.Context, in workloads[O], h *cachedWorkload, body []byte) (string, error) {
	answer, err := in.Patch(ctx, h.is.Name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	if err == nil {
		return answer.GetResourceVersion(), nil
	}
	if !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
		return "", err
	}
	now, lookErr := in.Get(ctx, h.is.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(lookErr) || lookErr == nil && now.GetResourceVersion() != h.is.ResourceVersion {
		return "", apierrors.NewConflict(appsv1.Resource(strings.ToLower(string(h.is.Kind))), h.is.Name, err)
	}
	return "", err
}

// Package releases reads how far releases of live config have come, from objects and their stable
// copies. It does not know commands, nor how anything is printed.
package releases

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// State is how far a release has come, for people.
type State string

// The states, besides those of package release.
const (
	// Stable: all pods have what the object has.
	Stable State = "Stable"
	// Waiting: the controller has not looked at the edit yet. No pod has it.
	Waiting State = "Waiting"
	// New: there is no stable copy yet. All pods have what the object has.
	New State = "New"
	// Mistaken: the annotation is wrong. No further pod gets an edit.
	Mistaken State = "Mistaken"
)

// HasFailed reports whether somebody has to do something.
func (s State) HasFailed() bool {
	return s == Mistaken || release.State(s).IsFinal()
}

// View is one released object.
type View struct {
	Object    string `json:"object"`
	Namespace string `json:"namespace"`
	State     State  `json:"state"`
	// Step counts from 1, of so many Steps; 0 if no step has begun.
	Step  int `json:"step,omitempty"`
	Steps int `json:"steps"`
	// Shown is how many of the Pods have what the object has.
	Shown int `json:"shown"`
	Pods  int `json:"pods"`
	// Since is when the step or the state began.
	Since time.Time `json:"since,omitzero"`
	// Pause is how long each step lasts, in seconds.
	Pause  float64 `json:"pauseSeconds"`
	Group  string  `json:"group,omitempty"`
	Reason string  `json:"reason,omitempty"`
	// Candidate and Stable are digests. They are equal if all pods have what the object has.
	Candidate string          `json:"candidate"`
	Digest    string          `json:"stable,omitempty"`
	History   []release.Entry `json:"history,omitempty"`
}

// Pair is a released object with its stable copy.
type Pair struct {
	Source stable.Object
	Copy   *stable.Object // Nil for none.
}

// Read reads a released object with its copy.
func Read(ctx context.Context, client kubernetes.Interface, ref api.Ref) (Pair, error) {
	source, err := stable.Read(ctx, client, ref)
	if err != nil {
		return Pair{}, err
	}
	if !source.IsReleased {
		return Pair{}, fmt.Errorf("%s is not released: it has no annotation %s", ref, release.Annotation)
	}
	p := Pair{Source: source}
	found, err := stable.Read(ctx, client, release.StableOf(ref))
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return Pair{}, err
	case found.IsCopyOf(ref):
		p.Copy = &found
	}
	return p, nil
}

// List returns the released objects of a namespace, or of all for an empty one, by namespace and
// name. The result leaves out objects that the caller may not list, and names them.
func List(ctx context.Context, client kubernetes.Interface, namespace string) (refs []api.Ref, denied []error) {
	add := func(kind api.Kind, m *metav1.ObjectMeta) {
		if _, isReleased := m.Annotations[release.Annotation]; isReleased {
			refs = append(refs, api.Ref{Kind: kind, Namespace: m.Namespace, Name: m.Name})
		}
	}
	maps, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		denied = append(denied, fmt.Errorf("list ConfigMaps: %w", err))
	} else {
		for i := range maps.Items {
			add(api.ConfigMap, &maps.Items[i].ObjectMeta)
		}
	}
	secrets, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		denied = append(denied, fmt.Errorf("list Secrets: %w", err))
	} else {
		for i := range secrets.Items {
			add(api.Secret, &secrets.Items[i].ObjectMeta)
		}
	}
	slices.SortFunc(refs, func(a, b api.Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(release.NameOf(a), release.NameOf(b)))
	})
	return refs, denied
}

// View returns how far the release has come. pods are those of the namespace.
func (p Pair) View(pods []Pod) View {
	s, mistakes := settings.Parse(p.Source.Annotation)
	v := View{
		Object: release.NameOf(p.Source.Ref), Namespace: p.Source.Ref.Namespace, State: New, Steps: len(s.Steps), Pause: s.Pause.Seconds(),
		Group: s.Group, Candidate: p.Source.Digest,
	}
	var e release.Exposure
	if p.Copy != nil {
		v.Digest = p.Copy.Digest
		v.History, _ = release.ParseHistory(p.Copy.Annotations[release.HistoryAnnotation])
		v.State = Stable
		if e = p.Copy.Exposure(); v.Digest != v.Candidate {
			v.State = Waiting
			if e.Digest == v.Candidate {
				v.State, v.Step, v.Since, v.Reason = State(e.State), e.Step, e.Since, e.Reason
			}
		}
	}
	for _, pod := range pods {
		if !slices.Contains(pod.Uses, p.Source.Ref) {
			continue
		}
		v.Pods++
		if p.Copy == nil || v.Digest == v.Candidate || e.Shows(pod.UID, v.Candidate) {
			v.Shown++
		}
	}
	if len(mistakes) > 0 {
		v.State, v.Reason = Mistaken, mistakes[0].String()
	}
	return v
}

// Pod is a pod with what its volumes name.
type Pod struct {
	Name, UID string
	Uses      []api.Ref
}

// Pods returns the running pods of a namespace.
func Pods(ctx context.Context, client kubernetes.Interface, driver, namespace string) ([]Pod, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var pods []Pod
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		next := Pod{Name: pod.Name, UID: string(pod.UID)}
		for _, volume := range pod.Spec.Volumes {
			if volume.CSI == nil || volume.CSI.Driver != driver {
				continue
			}
			if spec, err := api.Parse(volume.CSI.VolumeAttributes, pod.Namespace); err == nil {
				next.Uses = append(next.Uses, spec.Refs()...)
			}
		}
		pods = append(pods, next)
	}
	return pods, nil
}

package fakenodes

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is something that happens to a pod.
type What string

// What happens. Every pod is created first and deleted last.
const (
	Created What = "created"
	Ready   What = "ready"
	Unready What = "unready"
	// Deleting is when a pod that was bound is asked to end. It no longer counts as ready.
	Deleting What = "deleting"
	Deleted  What = "deleted"
)

// Entry is one line of the journal.
type Entry struct {
	// At is when the nodes heard of it, which is soon after.
	At   time.Time
	What What
	// Pod is as it was then. It is shared and must not be changed.
	Pod *corev1.Pod
}

// Owner is the pod's controller, such as ReplicaSet/web-5d8f; empty if it has none.
func (e Entry) Owner() string { return Owner(e.Pod) }

// String puts the entry on one line, as test failures show it.
func (e Entry) String() string {
	return fmt.Sprintf("%s %s %s of %s", e.At.Format("15:04:05.000"), e.What, e.Pod.Name, e.Owner())
}

// Owner is a pod's controller, such as ReplicaSet/web-5d8f; empty if it has none.
func Owner(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Kind + "/" + owner.Name
	}
	return ""
}

// Journal is what happened, in the order in which it did.
type Journal []Entry

// String has a line for each entry.
func (j Journal) String() string {
	lines := make([]string, len(j))
	for i, e := range j {
		lines[i] = e.String()
	}
	return strings.Join(lines, "\n")
}

// Of returns the entries about some of the pods, in order.
func (j Journal) Of(pods func(*corev1.Pod) bool) Journal {
	var of Journal
	for _, e := range j {
		if pods(e.Pod) {
			of = append(of, e)
		}
	}
	return of
}

// Since returns the entries after a moment, in order. After [Nodes.Await] that moment may be now: what was waited for is
// before it.
func (j Journal) Since(moment time.Time) Journal {
	for i, e := range j {
		if e.At.After(moment) {
			return j[i:]
		}
	}
	return nil
}

// FewestReady returns how many pods were ready at the worst time since a moment, which the number at that moment counts to.
// The journal must go back to the pods' creation.
func (j Journal) FewestReady(since time.Time) (fewest int) {
	ready := make(map[string]bool)
	begun := false
	for _, e := range j {
		if !begun && e.At.After(since) {
			begun, fewest = true, len(ready)
		}
		if e.What == Ready {
			ready[string(e.Pod.UID)] = true
		} else {
			delete(ready, string(e.Pod.UID))
		}
		if begun {
			fewest = min(fewest, len(ready))
		}
	}
	if !begun {
		return len(ready)
	}
	return fewest
}

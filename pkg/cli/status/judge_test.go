package status

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
)

func placeOf(volume string) versions.Place {
	ref := api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "app"}
	return versions.Place{Volume: volume, Object: ref, Names: ref}
}

// waitingPods are the pods of a namespace: one that waits for two volumes.
func waitingPods(mounts observe.Mounts, of state.Name) judged {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}, Spec: corev1.PodSpec{NodeName: "node"}}
	return judged{Workload: &observe.Workload{
		Selector: &observe.Selector{Workload: selection.Workload{Meta: &metav1.ObjectMeta{Namespace: "shop"}}},
		Waiting:  []*observe.Pod{{Pod: pod, Places: []versions.Place{placeOf("one"), placeOf("two")}, AsksNode: true}},
		Pending:  1, Mounts: mounts, State: state.State{Name: of},
	}}
}

// TestWaiting: a volume has the kubelet's reason for that volume, not for another one of the pod.
func TestWaiting(t *testing.T) {
	t.Parallel()
	const waits, denied = "it waits for its volume; see kubectl describe pod/web", "denied"
	unavailable := map[string]nodes.Answer{"node": {Err: &nodes.Unavailable{}}}
	tests := map[string]struct {
		volume  string // The one with a reason.
		answers map[string]nodes.Answer
		want    []string
		pending int
	}{
		"one of two":                     {"two", nil, []string{"one " + waits, "two " + denied}, 0},
		"another driver's":               {"data", nil, []string{"one " + waits, "two " + waits}, 0},
		"one of two, and no driver":      {"two", unavailable, []string{"two " + denied}, 0},
		"another driver's, and no other": {"data", unavailable, nil, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := waitingPods(observe.Mounts{"web": {test.volume: denied}}, "")
			pods.Answers = test.answers
			w := pods.status()
			var got []string
			for _, s := range w.Sources {
				for _, p := range s.Pods {
					got = append(got, s.Volume+" "+p.Why)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || w.Pending != test.pending {
				t.Errorf("%d are pending, want %d (-want +got):\n%s", w.Pending, test.pending, diff)
			}
		})
	}
}

// TestRolloutIsShown: pods of a namespace have no rollout, and neither has a workload that nothing triggers.
func TestRolloutIsShown(t *testing.T) {
	t.Parallel()
	for name, want := range map[state.Name]bool{"": false, state.NotTriggered: false, state.Done: true, state.Undone: true} {
		if got := waitingPods(nil, name).status().Rollout != nil; got != want {
			t.Errorf("a rollout in the state %q is shown: %t, want %t", name, got, want)
		}
	}
}

// TestNote: only a template has a newest revision.
func TestNote(t *testing.T) {
	t.Parallel()
	object := placeOf("one").Object
	copied := placeOf("one")
	copied.Names.Name = "app-0123456789"
	ofTemplate, ofPods := waitingPods(nil, "").Workload, waitingPods(nil, "").Workload
	ofTemplate.Newest = []versions.Place{copied}
	tests := map[string]struct {
		workloads []*observe.Workload
		isCopied  bool
		want      string
	}{
		"an object":             {[]*observe.Workload{ofPods}, false, "denied: its version is the newest that a node knows"},
		"a copy in a template":  {[]*observe.Workload{ofPods, ofTemplate}, true, "denied: its copy is the one of the newest revision"},
		"a copy in pods":        {[]*observe.Workload{ofPods}, true, "denied: it is not known which copy is the newest"},
		"a copy, and both ways": {[]*observe.Workload{ofTemplate}, true, "denied: its copy is the one of the newest revision"},
	}
	for name, test := range tests {
		if got := noteOf(object, observe.Found{Err: errors.New("denied"), IsCopied: test.isCopied}, test.workloads); !strings.Contains(got, test.want) {
			t.Errorf("%s: the note is %q, want %q", name, got, test.want)
		}
	}
}

package status

import (
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
)

// judged is a workload, and what is known of its pods.
type judged struct {
	*observe.Workload
	observe.Observation

	// notes stand for the newest versions of objects that could not be read.
	notes map[api.Ref]string
}

func (t judged) status() workloadStatus {
	w := workloadStatus{
		Workload: t.Name, Namespace: t.Meta.Namespace, Running: len(t.Running), Pending: t.Pending, Sources: []sourceStatus{},
	}
	w.LeftInTree = observe.LeftInTree(slices.Concat(t.Running, t.Waiting))
	lines := map[versions.Place]int{} // By volume and object: which copy is in it makes no difference.
	for _, place := range t.All() {
		key := versions.Place{Volume: place.Volume, Object: place.Object}
		if _, found := lines[key]; found {
			continue
		}
		lines[key] = len(w.Sources)
		w.Sources = append(w.Sources, t.source(place))
	}
	for _, pod := range t.Running {
		for _, place := range pod.Places {
			at := lines[versions.Place{Volume: place.Volume, Object: place.Object}]
			w.Sources[at].add(t.podStatus(pod, place))
		}
	}
	for _, pod := range t.Waiting {
		t.addWaiting(&w, lines, pod)
	}
	if t.State.Name != state.NotTriggered && t.State.Name != "" { // It has none without a workload.
		w.Rollout = &t.State
	}
	return w
}

// addWaiting adds a pod that waits for a volume. Its reason comes from the kubelet, also if no
// driver answers; without both, the pod may as well wait for an image, and stays pending.
func (t judged) addWaiting(w *workloadStatus, lines map[versions.Place]int, pod *observe.Pod) {
	isAdded, answer := false, t.Answers[pod.Spec.NodeName]
	for _, place := range pod.Places {
		why := t.Mounts[string(pod.UID)][place.Volume]
		reported := answer.Report.Volume(string(pod.UID), place.Volume)
		isShown := answer.Err == nil && reported != nil && reported.State != statusz.Publishing
		at, found := lines[versions.Place{Volume: place.Volume, Object: place.Object}]
		if place.Volume == "" || isShown || !found || why == "" && answer.Err != nil {
			continue
		}
		if why == "" {
			why = "it waits for its volume; see kubectl describe pod/" + pod.Name
		}
		isAdded = true
		w.Sources[at].add(podStatus{
			Pod: pod.Name, Node: pod.Spec.NodeName, Driver: answer.Report.Version, State: versions.Lagging,
			Since: pod.CreationTimestamp.Time, Why: why,
		})
	}
	if isAdded {
		w.Pending--
	}
}

func (t judged) source(place versions.Place) sourceStatus {
	now := t.Wish(t.Workload, place)
	s := sourceStatus{
		Volume: place.Volume, Kind: place.Object.Kind, Namespace: place.Object.Namespace, Name: place.Object.Name,
		Note: t.notes[place.Object], Pods: []podStatus{},
	}
	switch {
	case len(now.Copies) > 0:
		s.Version = now.Copies[0]
	case now.Version != nil:
		s.Version = now.Version.ResourceVersion
	}
	return s
}

// noteOf returns what stands for the newest version of an object that could not be read.
func noteOf(object api.Ref, found observe.Found, workloads []*observe.Workload) string {
	isInTemplate := slices.ContainsFunc(workloads, func(w *observe.Workload) bool {
		return w.Pod == nil && slices.ContainsFunc(w.Newest, func(p versions.Place) bool {
			return p.IsCopy() && p.Object == object
		})
	})
	switch {
	case !found.IsCopied:
		return found.Err.Error() + ": its version is the newest that a node knows"
	case isInTemplate:
		return found.Err.Error() + ": its copy is the one of the newest revision"
	default:
		return found.Err.Error() + ": it is not known which copy is the newest"
	}
}

func (t judged) podStatus(pod *observe.Pod, place versions.Place) podStatus {
	v := t.Judge(t.Workload, pod, place)
	isOfTemplate := t.Pod == nil && slices.Contains(t.Newest, place)
	if v.State == versions.Lagging && place.IsCopy() && isOfTemplate {
		v = t.explained(v, t.Wish(t.Workload, place))
	}
	return podStatus{
		Pod: pod.Name, Node: pod.Spec.NodeName, Driver: t.Answers[pod.Spec.NodeName].Report.Version,
		State: v.State, Has: v.Has, Since: v.Since, Why: v.Why,
	}
}

// explained returns why the newest config is not in the template. After an undo without an edit
// no newer config exists to wait for.
func (t judged) explained(v versions.Verdict, now versions.Now) versions.Verdict {
	switch {
	case slices.Contains(now.Copies, "") || len(now.Copies) == 0:
		v.Why = "it is not known which copy is the newest"
	case t.State.Name == state.NoEdit:
		return versions.Verdict{State: versions.Current, Has: v.Has}
	case t.State.Name == state.Undone:
		v.Why = "the rollout to " + now.Copies[0] + " was undone"
	case t.State.Name == state.Pending:
		v.Why = now.Copies[0] + " is not rolled out yet; see kubectl events --for " + t.Name
	default:
		v.Why = t.State.String()
	}
	return v
}

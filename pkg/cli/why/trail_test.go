package why

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// known is an edit that has come all the way, and what the steps can spoil.
func known() (*facts, *statusz.Volume, *statusz.Source) {
	edit := statusz.Version{UID: "u", ResourceVersion: "7"}
	now, projected := edit, edit
	f := &facts{
		pod: "web-0", account: "shop/web", node: "node-1", uid: "1", volume: "config", policy: api.UpdateAtomic,
		object: api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "app"},
		names:  api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "app"},
		mounts: []mount{{container: "web", path: "/etc/app"}},
		edit:   observe.Edit{By: "kubectl-edit", At: noon.Add(-time.Minute)}, now: versions.Now{Version: &now}, at: noon,
	}
	f.answer.Report = statusz.Report{SchemaVersion: 1, Volumes: []statusz.Volume{{
		Pod: statusz.Pod{UID: "1"}, Name: "config", State: statusz.Live, ProjectedAt: noon.Add(-50 * time.Second),
		Sources: []statusz.Source{{
			Kind: "ConfigMap", Namespace: "shop", Name: "app", ReadBy: "driver", Synced: true, Found: true,
			Known: &edit, Projected: &projected, ChangedAt: noon.Add(-55 * time.Second),
		}},
	}}}
	volume := &f.answer.Report.Volumes[0]
	return f, volume, &volume.Sources[0]
}

// TestWhereAnEditStops: the last step is the first that is not so, and the steps before it are there in order.
func TestWhereAnEditStops(t *testing.T) {
	t.Parallel()
	old := &statusz.Version{UID: "u", ResourceVersion: "6"}
	tests := map[string]struct {
		spoil       func(*facts, *statusz.Volume, *statusz.Source)
		place, what string
		next        string
		steps       int
	}{
		"nowhere": {func(*facts, *statusz.Volume, *statusz.Source) {}, "program", "the container sees the edit", "docs/watching.md", 9},
		"the object is gone": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) { f.now = versions.Now{} },
			"API server", "configmap/app does not exist", "kubectl -n shop get configmap/app", 2,
		},
		"the pod is on no node": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) { f.node = "" },
			"watch of the node", "on no node", "kubectl describe pod web-0", 3,
		},
		"the driver does not answer": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) {
				f.answer = nodes.Answer{Err: &nodes.Unavailable{Node: "node-1", Why: "it hangs", Type: "kubectl logs x", Err: errors.New("timeout")}}
			},
			"watch of the node", "the driver of node node-1 cannot be asked: it hangs: timeout", "kubectl logs x", 3,
		},
		"the volume could not be mounted": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) {
				f.answer.Report.Volumes, f.failed = nil, "no room"
			},
			"watch of the node", "could not be mounted: no room", "kubectl describe pod web-0", 3,
		},
		"the watch is dead": {
			func(_ *facts, _ *statusz.Volume, s *statusz.Source) { s.Known = old },
			"watch of the node", "has version 6 and not the edit", "wait", 3,
		},
		"the network is cut": {
			func(_ *facts, _ *statusz.Volume, s *statusz.Source) { s.Known, s.Error = old, "no route to host" },
			"watch of the node", "no route to host", "network", 3,
		},
		"the reader may not watch": {
			func(_ *facts, _ *statusz.Volume, s *statusz.Source) { s.Known, s.Polled = old, true },
			"watch of the node", "polls", "kubectl liveconfig grant pod/web-0", 3,
		},
		"the pod may not read": {
			func(_ *facts, v *statusz.Volume, s *statusz.Source) {
				s.Known, s.Error, s.ReadBy = old, "forbidden; to allow it, apply:\nkind: Role", "serviceaccount shop/web"
				v.Problem = &statusz.Problem{Kind: "Denied", Message: "x"}
			},
			"rights", "serviceaccount shop/web may not read it: forbidden", "kubectl liveconfig grant pod/web-0", 4,
		},
		"the driver may not read": {
			func(_ *facts, v *statusz.Volume, s *statusz.Source) {
				s.Known, s.Error = old, "forbidden"
				v.Problem = &statusz.Problem{Kind: "Denied", Message: "x"}
			},
			"rights", "driver may not read it", "kubectl describe pod web-0", 4,
		},
		"the release has not reached the pod": {
			func(_ *facts, _ *statusz.Volume, s *statusz.Source) {
				s.Release, s.Projected = &statusz.Release{Stable: *old, State: "Progressing"}, old
			},
			"release", "stable copy (Progressing)", "kubectl liveconfig release status configmap/app", 5,
		},
		"there is no room": {
			func(_ *facts, v *statusz.Volume, s *statusz.Source) {
				s.Projected, v.Problem = old, &statusz.Problem{Kind: "Exhausted", Message: "no room left"}
			},
			"room", "no room left", "resources.limits.memory", 6,
		},
		"the node cannot write": {
			func(_ *facts, v *statusz.Volume, s *statusz.Source) {
				s.Projected, v.Problem = old, &statusz.Problem{Kind: "IO", Message: "read-only"}
			},
			"files", "IO: read-only", "kubectl liveconfig describe pod/web-0", 7,
		},
		"the volume never updates": {
			func(f *facts, _ *statusz.Volume, s *statusz.Source) { s.Projected, f.policy = old, api.UpdateNever },
			"files", "update policy Never", "kubectl delete pod web-0", 7,
		},
		"the volume is frozen": {
			func(_ *facts, v *statusz.Volume, s *statusz.Source) { s.Projected, v.State = old, statusz.Frozen },
			"files", "no longer updates", "replace the pod", 7,
		},
		"the driver is about to write": {
			func(_ *facts, _ *statusz.Volume, s *statusz.Source) { s.Projected = old },
			"files", "have version 6", "kubectl liveconfig describe pod/web-0", 7,
		},
		"a stale subPath": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) { f.mounts[0].subPath = "a" },
			"mount", "container web mounts /etc/app by subPath a", "InPlace", 8,
		},
		"the rollout waits": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) {
				f.names.Name, f.behind = "app-1", versions.Verdict{State: versions.Lagging, Has: "app-1", Why: "it is of another revision"}
			},
			"rollout", "the copy app-1: it is of another revision", "kubectl liveconfig status", 3,
		},
		"nobody mounts it": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) { f.mounts = nil },
			"mount", "no container mounts volume config", "volumeMounts", 8,
		},
		"a subPath that is written in place": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) {
				f.mounts[0].subPath, f.policy = "a", api.UpdateInPlace
			},
			"program", "the container sees the edit", "docs/watching.md", 9,
		},
		"an object that the user may not get": {
			func(f *facts, _ *statusz.Volume, _ *statusz.Source) {
				f.now, f.err, f.edit = versions.Now{}, errors.New("you may not get it"), observe.Edit{}
			},
			"program", "the container sees the edit", "docs/watching.md", 9,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, volume, source := known()
			tt.spoil(f, volume, source)
			steps := f.trail()
			last := steps[len(steps)-1]
			if len(steps) != tt.steps || last.place != tt.place || !strings.Contains(last.what, tt.what) || !strings.Contains(last.next, tt.next) {
				t.Errorf("the trail is %s, want that it ends at %s with %q and %q, after %d steps", fmt.Sprint(steps), tt.place, tt.what, tt.next, tt.steps)
			}
			for _, s := range steps[:len(steps)-1] {
				if s.isStop || s.next != "" {
					t.Errorf("step %s stops, and the trail goes on", s.place)
				}
			}
		})
	}
}

// TestWhichEditMatters: of two objects in a volume that may not read one of them, the cause comes before what waits for it, whichever
// was edited last and named first; what arrived comes last.
func TestWhichEditMatters(t *testing.T) {
	t.Parallel()
	old := &statusz.Version{UID: "u", ResourceVersion: "6"}
	forbidden := &statusz.Problem{Kind: "Denied", Message: "configmaps is forbidden"}
	cause, volume, source := known()
	source.Known, source.Error, volume.Problem = old, "forbidden", forbidden
	waiting, volume, source := known()
	source.Projected, volume.Problem = old, forbidden
	arrived, _, _ := known()
	inOrder := []trail{
		{noon, cause.trail()},
		{noon.Add(time.Second), waiting.trail()},
		{noon, waiting.trail()},
		{noon.Add(time.Minute), arrived.trail()},
		{noon, arrived.trail()},
	}
	for i, first := range inOrder {
		for j, second := range inOrder {
			if got, want := first.compare(second), cmp.Compare(i, j); got != want {
				t.Errorf("compare(%d, %d) = %d, want %d", i, j, got, want)
			}
		}
	}
}

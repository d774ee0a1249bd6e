package describe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	app   = api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "app"}
	app1  = api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "app-1"}
	files = versions.Place{Volume: "files", Object: app, Names: app}
	copy1 = versions.Place{Volume: "files", Object: app, Names: app1}
	other = versions.Place{Object: app, Names: app1}
)

func version(text string) *statusz.Version { return &statusz.Version{UID: "u", ResourceVersion: text} }

// reported is a report of one volume of pod p, with a version of an object in it.
func reported(of api.Ref, projected *statusz.Version) *statusz.Report {
	return &statusz.Report{Recovered: true, Volumes: []statusz.Volume{
		{Pod: statusz.Pod{UID: "other"}, Name: "files"},
		{Pod: statusz.Pod{UID: "p"}, Name: "files", State: statusz.Live, Digest: "d", Bytes: 7, ProjectedAt: noon, CheckedAt: noon, Sources: []statusz.Source{{
			Kind: string(of.Kind), Namespace: of.Namespace, Name: of.Name, Synced: true, Found: true, Known: projected, Projected: projected, ChangedAt: noon,
		}}},
	}}
}

func TestFill(t *testing.T) {
	t.Parallel()
	fact := func(v *statusz.Version, copies ...string) map[api.Ref]observe.Found {
		return map[api.Ref]observe.Found{app: {Now: versions.Now{Version: v, ChangedAt: noon, Copies: copies}}}
	}
	tests := map[string]struct {
		report    *statusz.Report
		places    []versions.Place
		facts     map[api.Ref]observe.Found
		want      versions.State
		source    versions.State // Of the one in the volume; empty for none.
		elsewhere versions.State
		counted   map[versions.State]int
	}{
		"the version in the files is the newest": {
			report: reported(app, version("1")), places: []versions.Place{files}, facts: fact(version("1")),
			want: versions.Current, source: versions.Current, counted: map[versions.State]int{versions.Current: 1},
		},
		"the version in the files is an older one": {
			report: reported(app, version("1")), places: []versions.Place{files}, facts: fact(version("2")),
			want: versions.Lagging, source: versions.Lagging, counted: map[versions.State]int{versions.Lagging: 1},
		},
		"the node was not asked": {
			places: []versions.Place{files}, facts: fact(version("1")),
			want: versions.Unknown, source: versions.Unknown, counted: map[versions.State]int{versions.Unknown: 1},
		},
		"a volume whose attributes cannot be read is not current": {
			want: versions.Unknown, counted: map[versions.State]int{},
		},
		"a copy counts for its source": {
			report: reported(app1, version("1")), places: []versions.Place{copy1}, facts: fact(version("2"), "app-1"),
			want: versions.Current, source: versions.Current, counted: map[versions.State]int{versions.Current: 1},
		},
		"a pod counts once, by the worst": {
			report: reported(app, version("2")), places: []versions.Place{files, other}, facts: fact(version("2"), "app-2"),
			want: versions.Lagging, source: versions.Current, elsewhere: versions.Lagging, counted: map[versions.State]int{versions.Lagging: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := Pod{UID: "p", Volumes: []PodVolume{{Name: "files"}}}
			fill(&pod, test.report, test.places, test.facts)
			if pod.State != test.want {
				t.Errorf("the pod is %q, want %q", pod.State, test.want)
			}
			for of, is := range map[string]struct {
				got  []PodSource
				want versions.State
			}{"volume": {pod.Volumes[0].Sources, test.source}, "rest": {pod.Elsewhere, test.elsewhere}} {
				var want []PodSource
				if is.want != "" {
					want = []PodSource{{State: is.want}}
				}
				if diff := cmp.Diff(want, is.got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b PodSource) bool { return a.State == b.State })); diff != "" {
					t.Errorf("the sources of the %s (-want +got)\n%s", of, diff)
				}
			}
			object := objectOf(app, test.facts[app], []Pod{pod})
			wantSame(t, "the object's pods", test.counted, object.Pods)
		})
	}
}

// TestFillExplains: a pod whose node was not asked has the reason, except for sources that no node
// reports.
func TestFillExplains(t *testing.T) {
	t.Parallel()
	pod := Pod{UID: "p", NotAsked: "it has ended", Volumes: []PodVolume{{Name: "files"}}}
	fill(&pod, nil, []versions.Place{files, other}, map[api.Ref]observe.Found{app: {Now: versions.Now{Version: version("1")}}})
	if got, want := pod.Volumes[0].Sources[0].Why, "it has ended"; got != want {
		t.Errorf("in the volume Why = %q, want %q", got, want)
	}
	if got, want := pod.Elsewhere[0].Why, "it is not known which copy is the newest"; got != want {
		t.Errorf("elsewhere Why = %q, want %q", got, want)
	}
}

// TestFillTakesOver has all of a report that people look at taken over.
func TestFillTakesOver(t *testing.T) {
	t.Parallel()
	report := reported(app, version("1"))
	v := &report.Volumes[1]
	v.Problem = &statusz.Problem{Kind: "IO", Message: "no space", Since: noon}
	v.Sources[0].Known, v.Sources[0].Polled, v.Sources[0].Revoked, v.Sources[0].Error = version("2"), true, true, "forbidden"
	pod := Pod{UID: "p", Volumes: []PodVolume{{Name: "files"}}}
	fill(&pod, report, []versions.Place{files}, map[api.Ref]observe.Found{app: {Now: versions.Now{Version: version("2"), ChangedAt: noon}}})
	want := []PodVolume{{
		Name: "files", Reported: true, State: statusz.Live, Digest: "d", Bytes: 7, ProjectedAt: noon, CheckedAt: noon, Problem: v.Problem,
		Sources: []PodSource{{
			Object: app, State: versions.Lagging, Why: "forbidden", Since: noon, Projected: version("1"), Known: version("2"),
			KnownAt: noon, Polled: true, Revoked: true, Error: "forbidden",
		}},
	}}
	wantSame(t, "Volumes", want, pod.Volumes)
}

func TestRolloutOf(t *testing.T) {
	t.Parallel()
	config := trigger.Config{{Kind: api.ConfigMap, Name: "app"}: "app-1"}
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{trigger.ConfigAnnotation: config.String()}}}
	triggered := map[string]string{trigger.TriggeredBy: "configmap/app", trigger.AfterUndo: trigger.Pause}
	got := rolloutOf(workload.Workload{Annotations: triggered, Template: template}, state.State{Name: state.Pending, Why: "x"})
	want := &Rollout{
		TriggeredBy: "configmap/app", State: "pending: x", AfterUndo: trigger.Pause,
		WhileFailing: "as configured in the controller, hold by default", Copies: copiesIn(config),
	}
	wantSame(t, "RolloutOf", want, got)
	if got := rolloutOf(workload.Workload{Template: &corev1.PodTemplateSpec{}}, state.State{}); got != nil {
		t.Errorf("RolloutOf a workload that nothing triggers = %+v, want nil", got)
	}
}

func TestCopiesIn(t *testing.T) {
	t.Parallel()
	got := copiesIn(trigger.Config{{Kind: api.Secret, Name: "gone"}: "", {Kind: api.ConfigMap, Name: "app"}: "app-1"})
	want := []Copy{{Of: "configmap/app", Copy: "configmap/app-1"}, {Of: "secret/gone"}}
	wantSame(t, "CopiesIn", want, got)
}

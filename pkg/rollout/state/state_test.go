package state_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// app is the one trigger of the workload, and config what its template has when the copy of app is version N.
var app = api.Ref{Kind: api.ConfigMap, Name: "app"}

func config(version int) trigger.Config { return trigger.Config{app: fmt.Sprint("app-", version)} }

// facts are those of a Deployment whose template has version 1, which was rolled out last, and whose pods are done.
func facts(changes ...func(*state.Facts)) state.Facts {
	f := state.Facts{
		Workload: workload.Workload{
			Ref:         workload.Ref{Kind: workload.Deployment, Namespace: "shop", Name: "web"},
			Annotations: map[string]string{trigger.TriggeredBy: "configmap/app"},
			Labels:      map[string]string{trigger.RolloutLabel: trigger.MarkOf(config(1)).String()},
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{trigger.ConfigAnnotation: config(1).String()},
			}},
			Progress: workload.Progress{Observed: true, Done: true, Counts: workload.Counts{Updated: 3, Ready: 3, Available: 3}},
		},
		Newest: map[api.Ref]string{app: "app-1"},
	}
	for _, change := range changes {
		change(&f)
	}
	return f
}

func annotation(key, value string) func(*state.Facts) {
	return func(f *state.Facts) {
		if value == "" {
			delete(f.Workload.Annotations, key)
			return
		}
		f.Workload.Annotations[key] = value
	}
}

func noConfig(f *state.Facts) { delete(f.Workload.Template.Annotations, trigger.ConfigAnnotation) }

func edited(f *state.Facts) { f.Newest = map[api.Ref]string{app: "app-2"} }

func paused(f *state.Facts) { f.Workload.Paused = true }

func held(why string) func(*state.Facts) { return func(f *state.Facts) { f.Held = why } }

// blocking are pods of a StatefulSet that is not done.
func blocking(pods ...string) func(*state.Facts) {
	return func(f *state.Facts) {
		f.Workload.Kind, f.Workload.Progress.Done, f.Blocking = workload.StatefulSet, false, pods
	}
}

func progress(p workload.Progress) func(*state.Facts) {
	return func(f *state.Facts) { f.Workload.Progress = p }
}

// undone takes the workload back to version 1 after version 2 was rolled out.
func undone(f *state.Facts) {
	f.Workload.Labels[trigger.RolloutLabel] = trigger.MarkOf(config(2)).UndoneFor(config(1)).String()
	f.Newest = map[api.Ref]string{app: "app-2"}
	f.Workload.Annotations[trigger.UndoneAnnotation] = `{"at":"2026-03-01T12:00:00Z"}`
}

// example is a row of docs/states.md.
type example struct {
	name  string
	facts state.Facts
	want  state.State
}

// cases are what docs/states.md has as examples, in its order.
func cases() []example {
	const counts = "pods with the new template: 1; available pods: 2"
	under := workload.Progress{Observed: true, Counts: workload.Counts{Updated: 1, Ready: 2, Available: 2}}
	stuck := under
	stuck.Exceeded = true
	return []example{
		{"nothing triggers it", facts(annotation(trigger.TriggeredBy, ""), noConfig), state.State{Name: state.NotTriggered}},
		{"just opted in", facts(noConfig), state.State{
			Name: state.Pending, Waits: true, Why: "the controller has not made the first copies yet; if this lasts, see whether it runs",
		}},
		{"just edited", facts(edited), state.State{Name: state.Pending, Waits: true, Why: "configmap/app was edited"}},
		{"just opted out", facts(annotation(trigger.TriggeredBy, "")), state.State{
			Name: state.Pending, Why: "nothing triggers rollouts any more; the template gets the sources back",
		}},
		{"undone, then edited", facts(undone, func(f *state.Facts) { f.Newest = map[api.Ref]string{app: "app-3"} }), state.State{
			Name: state.Pending, Waits: true, Why: "configmap/app was edited",
		}},
		{"the controller says why it waits", facts(edited, held("configmap/app has no key")), state.State{
			Name: state.HeldBack, Waits: true, Why: "configmap/app has no key",
		}},
		{"undone, then edited, with after-undo pause", facts(undone, annotation(trigger.AfterUndo, trigger.Pause),
			func(f *state.Facts) { f.Newest = map[api.Ref]string{app: "app-3"} }), state.State{
			Name: state.HeldBack, Waits: true, Why: "deployment/web was undone and liveconfig.internal/after-undo is pause; " +
				"to go on: kubectl annotate deployment/web liveconfig.internal/undone-",
		}},
		{"edited while the rollout fails", facts(edited, progress(stuck)), state.State{
			Name: state.HeldBack, Waits: true, Why: "the rollout of the last change gets nowhere; to go back, after which this change is tried: " +
				"kubectl rollout undo deployment/web; to try it at once: kubectl annotate deployment/web liveconfig.internal/while-failing=roll",
		}},
		{"a trigger that cannot be read", facts(annotation(trigger.TriggeredBy, "app")), state.State{
			Name: state.HeldBack, Waits: true,
			Why: `the annotation liveconfig.internal/triggered-by "app" names no kind: write "configmap/app" or "secret/app"`,
		}},
		{"paused", facts(paused), state.State{
			Name: state.Paused, Why: "no edit waits; the deployment is paused; `kubectl rollout resume deployment/web` rolls out what has changed since",
		}},
		{"paused and edited", facts(paused, edited), state.State{
			Name: state.Paused, Waits: true,
			Why: "configmap/app was edited; the deployment is paused; `kubectl rollout resume deployment/web` rolls out what has changed since",
		}},
		{"Kubernetes replaces pods", facts(progress(under)), state.State{Name: state.Rolling, Why: counts}},
		{"Kubernetes has not looked yet", facts(progress(workload.Progress{})), state.State{
			Name: state.Rolling, Why: "Kubernetes has not seen the new template yet",
		}},
		{"the progress deadline has passed", facts(progress(stuck)), state.State{
			Name: state.Stuck, Waits: true, Why: counts + "; the progress deadline has passed: to go back, kubectl rollout undo deployment/web",
		}},
		{"undone", facts(undone), state.State{
			Name: state.Undone, Why: "the last change was undone at 2026-03-01T12:00:00Z; it stays so until a source is edited",
		}},
		{"undone, with after-undo pause", facts(undone, annotation(trigger.AfterUndo, trigger.Pause)), state.State{
			Name: state.Undone, Why: "the last change was undone at 2026-03-01T12:00:00Z; edits wait until: " +
				"kubectl annotate deployment/web liveconfig.internal/undone-",
		}},
		{"undone, and a StatefulSet waits for a broken pod", facts(undone, blocking("web-2")), state.State{
			Name: state.Undone, Why: "the last change was undone at 2026-03-01T12:00:00Z; it stays so until a source is edited; " +
				"pod web-2 is not ready and has another template than statefulset/web, and Kubernetes does not replace it by itself; " +
				"to let the rollout continue: kubectl delete pod -n shop web-2",
		}},
		{"undone and resumed without an edit", facts(undone, annotation(trigger.UndoneAnnotation, "")), state.State{
			Name: state.NoEdit, Why: "the last change was undone, and no source was edited since; the next edit is rolled out",
		}},
		{"the pods have the newest", facts(), state.State{Name: state.Done}},
		{"it is not known what the sources hold", facts(func(f *state.Facts) { f.Newest = nil }), state.State{Name: state.Done}},
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for _, test := range cases() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, state.Of(test.facts)); diff != "" {
				t.Errorf("Of (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSeveralPodsBlock: one command deletes them all.
func TestSeveralPodsBlock(t *testing.T) {
	t.Parallel()
	want := "pods with the new template: 3; available pods: 3; pods web-1, web-2 are not ready and have another template than " +
		"statefulset/web, and Kubernetes does not replace them by itself; to let the rollout continue: kubectl delete pod -n shop web-1 web-2"
	if got := state.Of(facts(blocking("web-1", "web-2"))); got.Why != want || got.Name != state.Rolling {
		t.Errorf("state = %s, want %s: %s", got, state.Rolling, want)
	}
}

// TestPageOfStates compares docs/states.md with what is decided. `make docs` writes its table.
func TestPageOfStates(t *testing.T) {
	var rows [][]string
	for _, c := range cases() {
		waits := map[bool]string{true: "yes", false: "no"}[c.want.Waits]
		rows = append(rows, []string{string(c.want.Name), c.name, waits, c.want.Why})
	}
	docs.Table{Page: "states.md", Name: "states", Columns: []string{"state", "when", "an edit waits", "what commands say"}, Rows: rows}.Compare(t)
}

// TestEveryStateHasACase: the page explains all of them.
func TestEveryStateHasACase(t *testing.T) {
	t.Parallel()
	for _, name := range state.Names() {
		if !slices.ContainsFunc(cases(), func(c example) bool { return c.want.Name == name }) {
			t.Errorf("no case has the state %q", name)
		}
	}
}

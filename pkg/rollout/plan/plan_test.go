package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

var (
	foo = api.Ref{Kind: api.ConfigMap, Name: "foo"}
	bar = api.Ref{Kind: api.Secret, Name: "bar"}
)

// The configs of a source that was edited twice.
var (
	one   = trigger.Config{foo: "foo-1"}
	two   = trigger.Config{foo: "foo-2"}
	three = trigger.Config{foo: "foo-3"}
)

// uncopied is the config of a template that does not name foo.
func uncopied(version string) trigger.Config { return trigger.Config{foo: trigger.Uncopied(version)} }

// mark is the label of a workload to which a config was rolled out.
func mark(c trigger.Config) string { return trigger.MarkOf(c).String() }

// undone is the label of one on which it was noticed that another config took its place.
func undone(rolled, now trigger.Config) string { return trigger.MarkOf(rolled).UndoneFor(now).String() }

// uses are the objects that a template names.
func uses(objects ...api.Ref) map[api.Ref]bool {
	used := map[api.Ref]bool{}
	for _, o := range objects {
		used[o] = true
	}
	return used
}

func configMap(name string) api.Ref { return api.Ref{Kind: api.ConfigMap, Name: name} }

type want struct {
	action      plan.Action
	config      trigger.Config
	names       map[api.Ref]string
	label       string
	keepsUndone bool
	held        plan.Held
}

// TestDecide is about fault 32.
func TestDecide(t *testing.T) {
	t.Parallel()
	fooIs := func(name string) map[api.Ref]string { return map[api.Ref]string{foo: name} }
	// Of a template that names the source, or this copy of it.
	rollOut := func(c trigger.Config, before string) want {
		return want{action: plan.RollOut, config: c, label: mark(c), names: map[api.Ref]string{foo: c[foo], configMap(before): c[foo]}}
	}
	repair := func(c trigger.Config, label string) want {
		return want{action: plan.Repair, config: c, label: label, names: map[api.Ref]string{foo: c[foo], configMap(c[foo]): c[foo]}}
	}
	// Of a template that names the copies of its config.
	live := func(label string, template, wanted trigger.Config, changes ...func(*plan.State)) plan.State {
		s := plan.State{OptedIn: true, Label: label, Template: template, Used: uses(configMap(template[foo])), Wanted: wanted}
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	applied := func(s *plan.State) { s.Used = uses(foo) } // The manifest, again.
	failing := func(s *plan.State) { s.Failing = true }
	paused := func(s *plan.State) { s.Paused = true }
	isUndone := func(s *plan.State) { s.Undone = true }
	pausing := func(s *plan.State) { s.AfterUndo = trigger.Pause }
	tests := map[string]struct {
		state plan.State
		want  want
	}{
		"a template whose config cannot be read is left alone": {
			plan.State{OptedIn: true, Label: mark(one), Broken: true, Problem: "cannot be read", Wanted: two},
			want{action: plan.Rest, label: mark(one), held: plan.HeldByProblem},
		},
		"so is one of a workload that opted out": {
			plan.State{Label: mark(one), Broken: true, Problem: "cannot be read"},
			want{action: plan.Rest, label: mark(one), held: plan.HeldByProblem},
		},
		"a copy that the config does not know is replaced with the next edit": {
			plan.State{
				OptedIn: true, Label: undone(one, nil), Wanted: two, Used: uses(configMap("foo-1")),
				Strays: map[api.Ref]api.Ref{configMap("foo-1"): foo},
			},
			rollOut(two, "foo-1"),
		},
		"a workload without triggers is left alone": {plan.State{Used: uses(foo)}, want{action: plan.Rest}},
		"a workload that opts in gets copies without waiting": {
			plan.State{OptedIn: true, Used: uses(foo), Wanted: one},
			want{action: plan.Repair, config: one, names: fooIs("foo-1"), label: mark(one)},
		},
		"a workload that opts in while a source is missing waits": {
			plan.State{OptedIn: true, Used: uses(foo), Wanted: one, Problem: "no"},
			want{action: plan.Rest, held: plan.HeldByProblem},
		},
		"a workload that is as it was rolled out rests": {live(mark(one), one, one), want{action: plan.Rest, label: mark(one)}},
		"an edit is rolled out":                         {live(mark(one), one, two), rollOut(two, "foo-1")},
		"an edit that comes with its manifest does not wait for quiet": {
			live(mark(one), one, two, applied),
			want{
				action: plan.Repair, config: two, label: mark(two),
				names: map[api.Ref]string{foo: "foo-2", configMap("foo-1"): "foo-2"},
			},
		},
		"an edit with a problem is held back": {
			live(mark(one), one, two, func(s *plan.State) { s.Problem = "no key" }),
			want{action: plan.Rest, label: mark(one), held: plan.HeldByProblem},
		},
		"an edit is held back while the one before it fails":        {live(mark(one), one, two, failing), want{action: plan.Rest, label: mark(one), held: plan.HeldByFailure}},
		"unless an annotation forbids it":                           {live(mark(one), one, two, failing, func(s *plan.State) { s.WhileFailing = trigger.Roll }), rollOut(two, "foo-1")},
		"a failing rollout without an edit is nothing to hold back": {live(mark(one), one, one, failing), want{action: plan.Rest, label: mark(one)}},
		"a manifest that was applied again gets the copy it had":    {live(mark(one), one, one, applied), repair(one, mark(one))},
		"also while an edit is held back": {
			live(mark(one), one, two, applied, failing),
			want{
				action: plan.Repair, config: one, label: mark(one), held: plan.HeldByFailure,
				names: map[api.Ref]string{foo: "foo-1", configMap("foo-1"): "foo-1"},
			},
		},
		"an undo is recorded": {live(mark(two), one, two), want{action: plan.RecordUndo, config: one, label: undone(two, one)}},
		"an undo to a revision without copies is recorded": {
			plan.State{OptedIn: true, Label: mark(two), Used: uses(foo), Wanted: two},
			want{action: plan.RecordUndo, label: undone(two, nil)},
		},
		"an undo stays": {live(undone(two, one), one, two, isUndone), want{action: plan.Rest, label: undone(two, one), keepsUndone: true}},
		"an annotation of an undo that the label does not know goes": {live(mark(two), two, two, isUndone), repair(two, mark(two))},
		"an undo to plain names stays": {
			plan.State{OptedIn: true, Label: undone(two, nil), Undone: true, Used: uses(foo), Wanted: two},
			want{action: plan.Rest, label: undone(two, nil), keepsUndone: true},
		},
		"an undo stays when the manifest is applied again": {
			live(undone(two, one), one, two, applied, isUndone),
			want{
				action: plan.Repair, config: one, label: undone(two, one), keepsUndone: true,
				names: map[api.Ref]string{foo: "foo-1", configMap("foo-1"): "foo-1"},
			},
		},
		"another undo is recorded again":      {live(undone(three, two), one, three, isUndone), want{action: plan.RecordUndo, config: one, label: undone(three, one)}},
		"an undo of the undo is forgotten":    {live(undone(two, one), two, two, isUndone), repair(two, mark(two))},
		"an edit after an undo is rolled out": {live(undone(two, one), one, three, isUndone), rollOut(three, "foo-1")},
		"an edit after an undo waits where that is wished": {
			live(undone(two, one), one, three, isUndone, pausing),
			want{action: plan.Rest, label: undone(two, one), keepsUndone: true, held: plan.HeldByUndo},
		},
		"until somebody removes the annotation":                 {live(undone(two, one), one, three, pausing), rollOut(three, "foo-1")},
		"a failing rollout of an undo holds nothing back":       {live(undone(two, one), one, three, isUndone, failing), rollOut(three, "foo-1")},
		"a paused workload is not touched":                      {live(mark(one), one, two, paused), want{action: plan.Rest, label: mark(one), held: plan.HeldByPause}},
		"a paused workload with nothing to do is not held back": {live(mark(one), one, one, paused), want{action: plan.Rest, label: mark(one)}},
		"a workload that opts out gets the sources back": {
			plan.State{Label: mark(two), Template: two, Used: uses(configMap("foo-2"))},
			want{action: plan.OptOut, names: map[api.Ref]string{configMap("foo-2"): "foo"}},
		},
		"a workload that opts out while paused waits": {
			plan.State{Label: mark(two), Template: two, Used: uses(configMap("foo-2")), Paused: true},
			want{action: plan.Rest, label: mark(two), held: plan.HeldByPause},
		},
		"a workload that was taken back to before it opted in is left alone": {plan.State{Label: mark(two), Used: uses(foo)}, want{action: plan.Rest, label: mark(two)}},
		"a trigger that is not one any more gets its source back": {
			plan.State{
				OptedIn: true, Label: mark(trigger.Config{foo: "foo-1", bar: "bar-1"}), Template: trigger.Config{foo: "foo-1", bar: "bar-1"},
				Wanted: trigger.Config{bar: "bar-1"},
			},
			want{
				action: plan.RollOut, config: trigger.Config{bar: "bar-1"}, label: mark(trigger.Config{bar: "bar-1"}),
				names: map[api.Ref]string{
					bar: "bar-1", configMap("foo-1"): "foo", {Kind: api.Secret, Name: "bar-1"}: "bar-1",
				},
			},
		},
		"a source that may be missing and is gone is used by its own name": {
			live(mark(one), one, trigger.Config{foo: ""}),
			want{
				action: plan.RollOut, config: trigger.Config{foo: ""}, label: mark(trigger.Config{foo: ""}),
				names: map[api.Ref]string{configMap("foo-1"): "foo"},
			},
		},
		"copies without a label are taken over as they are": {
			plan.State{OptedIn: true, Template: one, Used: uses(configMap("foo-1")), Wanted: two},
			want{action: plan.RecordUndo, config: one, label: undone(two, one)},
		},
		"copies without a label that are current only get the label": {
			plan.State{OptedIn: true, Template: two, Used: uses(configMap("foo-2")), Wanted: two},
			repair(two, mark(two)),
		},
		"an edit of what the template does not name is rolled out, and points nothing elsewhere": {
			plan.State{OptedIn: true, Label: mark(uncopied("foo-1")), Template: uncopied("foo-1"), Wanted: uncopied("foo-2"), Used: uses(bar)},
			want{action: plan.RollOut, config: uncopied("foo-2"), label: mark(two), names: map[api.Ref]string{}},
		},
		"a template that begins to name what was only compared gets a copy of it": {
			live(mark(one), uncopied("foo-1"), one, applied),
			want{action: plan.Repair, config: one, names: fooIs("foo-1"), label: mark(one)},
		},
		"which is of what it holds now": {live(mark(one), uncopied("foo-1"), two, applied), want{action: plan.Repair, config: two, names: fooIs("foo-2"), label: mark(two)}},
		"also while something holds edits back, which then is not an edit any more": {
			live(mark(one), uncopied("foo-1"), two, applied, failing),
			want{action: plan.Repair, config: two, names: fooIs("foo-2"), label: mark(two), held: plan.HeldByFailure},
		},
		"and where an undo stays": {
			live(undone(two, one), uncopied("foo-1"), two, applied, isUndone),
			want{action: plan.Repair, config: two, names: fooIs("foo-2"), label: undone(two, two), keepsUndone: true},
		},
		"a template that stops to name something is left as it is": {
			plan.State{OptedIn: true, Label: mark(one), Template: one, Used: uses(bar), Wanted: uncopied("foo-1")},
			want{action: plan.Rest, label: mark(one)},
		},
		"an undo of what the template does not name is recorded": {
			plan.State{OptedIn: true, Label: mark(two), Template: uncopied("foo-1"), Wanted: uncopied("foo-2")},
			want{action: plan.RecordUndo, config: uncopied("foo-1"), label: undone(two, one)},
		},
		"and stays": {
			plan.State{OptedIn: true, Label: undone(two, one), Undone: true, Template: uncopied("foo-1"), Wanted: uncopied("foo-2")},
			want{action: plan.Rest, label: undone(two, one), keepsUndone: true},
		},
		"a label that nobody of ours has written is taken for an undo": {
			live("mine", one, one),
			want{action: plan.RecordUndo, config: one, label: trigger.ParseMark("mine").UndoneFor(one).String()},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Decide(tt.state)
			got := want{d.Action, d.Config, d.Names, d.Label, d.KeepsUndone, d.Held}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("Decide: (-want +got)\n%s", diff)
			}
		})
	}
}

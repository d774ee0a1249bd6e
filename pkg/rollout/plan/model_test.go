package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// world is a Deployment that is triggered by foo, with its revisions, as the API server and the Deployment's controller
// keep them.
type world struct {
	version     int // Of foo.
	label       string
	annotations map[string]string
	template    pods
	paused      bool
	revisions   []revision // The newest is the last.
	history     []string
}

// pods is a pod template: the name under which it uses foo, and the config in its annotation.
type pods struct {
	uses   string
	config string // Empty: none.
}

// revision is a template with the annotations that the workload had while it was the newest.
type revision struct {
	template    pods
	annotations map[string]string
}

func newWorld() *world {
	w := &world{version: 1, annotations: map[string]string{}, template: pods{uses: "foo"}}
	w.keepRevision()
	return w
}

func (w *world) wanted() trigger.Config {
	return trigger.Config{foo: fmt.Sprintf("foo-%d", w.version)}
}

// keepRevision is what the Deployment's controller does after every change.
func (w *world) keepRevision() {
	if w.paused {
		return
	}
	for i, r := range w.revisions {
		if r.template == w.template {
			w.revisions = append(w.revisions[:i:i], w.revisions[i+1:]...)
			break
		}
	}
	w.revisions = append(w.revisions, revision{w.template, maps.Clone(w.annotations)})
}

func (w *world) state(t *testing.T) plan.State {
	t.Helper()
	s := plan.State{
		Label: w.label, AfterUndo: w.annotations[trigger.AfterUndo], Used: uses(configMap(w.template.uses)),
		Wanted: w.wanted(), Paused: w.paused,
	}
	_, s.OptedIn = w.annotations[trigger.TriggeredBy]
	_, s.Undone = w.annotations[trigger.UndoneAnnotation]
	if w.template.config != "" {
		config, err := trigger.ParseConfig(w.template.config)
		if err != nil {
			t.Fatal(err)
		}
		s.Template = config
	}
	return s
}

// settle does what is decided until there is nothing more to do, and returns how many writes that took.
func (w *world) settle(t *testing.T) int {
	t.Helper()
	for writes := range 4 {
		s := w.state(t)
		d := plan.Decide(s)
		if d.Action == plan.Rest {
			return writes
		}
		w.history = append(w.history, string(d.Action))
		w.label = d.Label
		if !d.KeepsUndone {
			delete(w.annotations, trigger.UndoneAnnotation)
		}
		if d.Action == plan.RecordUndo {
			w.annotations[trigger.UndoneAnnotation] = "x"
		}
		if name, ok := d.Names[configMap(w.template.uses)]; ok {
			w.template.uses = name
		}
		w.template.config = ""
		if d.Config != nil {
			w.template.config = d.Config.String()
		}
		w.keepRevision()
	}
	t.Fatalf("it does not come to rest: %q", w.history)
	return 0
}

// undo is kubectl's: template and annotations become those of the revision.
func (w *world) undo(to revision) {
	w.template, w.annotations = to.template, maps.Clone(to.annotations)
	w.keepRevision()
}

// TestAnyOrder does what users do in any order. After each step things come to rest, an undo has what the revision had,
// and an edit that nobody asked to hold back is in the template.
//
// Fault 32.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld()
		for range 30 {
			step(t, w, random)
			if t.Failed() {
				t.Fatalf("seed %d: %q", seed, w.history)
			}
		}
	}
}

func step(t *testing.T, w *world, random *rand.Rand) {
	t.Helper()
	before := w.template
	_, optedIn := w.annotations[trigger.TriggeredBy]
	settled := w.label == "" || trigger.ParseMark(w.label).IsFor(w.wanted())
	do := random.IntN(9)
	w.history = append(w.history, fmt.Sprint("do ", do))
	undoneTo := revision{}
	switch do {
	case 0, 1:
		w.version++
	case 2, 3:
		if w.paused {
			return // kubectl refuses.
		}
		undoneTo = w.revisions[random.IntN(len(w.revisions))]
		w.undo(undoneTo)
	case 4:
		w.template.uses = "foo"
		w.annotations[trigger.TriggeredBy] = "configmap/foo"
		w.keepRevision()
	case 5:
		delete(w.annotations, trigger.TriggeredBy)
		w.keepRevision()
	case 6:
		w.paused = !w.paused
		w.keepRevision()
	case 7:
		w.annotations[trigger.AfterUndo] = []string{trigger.Pause, trigger.Roll}[random.IntN(2)]
		w.keepRevision()
	case 8:
		delete(w.annotations, trigger.UndoneAnnotation)
		w.keepRevision()
	}
	w.settle(t)
	if writes := w.settle(t); writes > 0 {
		t.Errorf("after coming to rest it writes %d times more", writes)
	}
	_, stillIn := w.annotations[trigger.TriggeredBy]
	switch {
	case w.paused:
	case !stillIn && (w.template.config != "" || w.template.uses != "foo"):
		t.Errorf("nothing triggers it, and the template is %+v", w.template)
	case undoneTo.template.config != "" && undoneTo.template.uses != "foo" && settled && stillIn && w.template != undoneTo.template:
		t.Errorf("the undo to %+v became %+v", undoneTo.template, w.template)
	case do == 4 && optedIn && settled && before.config != "" && w.template != before:
		t.Errorf("the manifest applied again made %+v of %+v", w.template, before)
	case do < 2 && optedIn && w.annotations[trigger.AfterUndo] != trigger.Pause && w.template.config != w.wanted().String():
		t.Errorf("the edit to %v is not in the template, which is %+v", w.wanted(), w.template)
	}
}

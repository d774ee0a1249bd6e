// Package plan decides what the rollout controller does about one workload, from what the workload
// has and what its sources are now. It acts on a change of the sources and never on a difference
// between template and sources: that is why an undo stays.
//
// It is pure: it does not know clients, pod templates, clocks or queues.
package plan

import (
	"cmp"
	"maps"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// State is what there is.
type State struct {
	// OptedIn reports whether the workload names what it is triggered by.
	OptedIn bool
	// Label is the value of trigger.RolloutLabel, empty without the label.
	Label string
	// Undone reports whether the workload has trigger.UndoneAnnotation.
	Undone bool
	// AfterUndo and WhileFailing are the annotations of these names, or their defaults.
	AfterUndo, WhileFailing string
	// Template is the config of the pod template; nil if it has none.
	Template trigger.Config
	// Broken means that the config of the pod template cannot be read.
	Broken bool
	// Strays are copies that the template names and its config does not know, with what they are
	// copies of.
	Strays map[api.Ref]api.Ref
	// Used are the objects that the template names.
	Used map[api.Ref]bool
	// Wanted is the config by what the sources are now.
	Wanted trigger.Config
	// Problem is why Wanted must not be rolled out. Empty: it may.
	Problem string
	// Paused means that the workload shall not be touched.
	Paused bool
	// Failing means that a rollout of a config is under way and gets nowhere.
	Failing bool
}

// Action is what to do about a workload.
type Action string

// The actions.
const (
	// Rest is to do nothing.
	Rest Action = "rest"
	// RollOut is to make Wanted the template's config, after the quiet period and when the rate
	// allows.
	RollOut Action = "roll out"
	// Repair is the same without waiting: somebody else has changed the template just now.
	Repair Action = "repair"
	// RecordUndo is to note that the template's config took the place of the one rolled out last.
	RecordUndo Action = "record the undo"
	// OptOut is to make the template what it would be without the controller.
	OptOut Action = "opt out"
)

// Held is why a wanted change is not made. The zero value is that nothing is held back.
type Held string

// The reasons.
const (
	HeldByPause   Held = "paused"
	HeldByUndo    Held = "undone"
	HeldByFailure Held = "failing"
	HeldByProblem Held = "problem"
)

// Decision is an action and what it takes.
type Decision struct {
	Action Action
	// Config is what the template must have. Nil: nothing.
	Config trigger.Config
	// Names map an object to the one that replaces it by the action, by what the template may name
	// now.
	Names map[api.Ref]string
	// Label is what trigger.RolloutLabel must have. Empty: it goes.
	Label string
	// KeepsUndone means that trigger.UndoneAnnotation stays as it is. Otherwise it goes, or is new
	// with RecordUndo.
	KeepsUndone bool
	// Held is set with Rest and Repair: there is more to do, and it has to wait.
	Held Held
}

// Decide returns what to do.
func Decide(s State) Decision {
	if s.Broken {
		return Decision{Action: Rest, Label: s.Label, Held: HeldByProblem}
	}
	if !s.OptedIn {
		return s.withoutTriggers()
	}
	d := s.withTriggers()
	if s.Paused && (d.Action != Rest || d.Held != "") {
		return Decision{Action: Rest, Label: s.Label, Held: HeldByPause}
	}
	return d
}

// withoutTriggers undoes what the controller did to the template. If there is nothing to undo, the
// label stays: the workload may have been taken back to a revision from before it opted in, and may
// come forward again.
func (s State) withoutTriggers() Decision {
	if s.Template == nil {
		return Decision{Action: Rest, Label: s.Label}
	}
	if s.Paused {
		return Decision{Action: Rest, Label: s.Label, Held: HeldByPause}
	}
	return Decision{Action: OptOut, Names: s.names(nil)}
}

func (s State) withTriggers() Decision {
	mark := trigger.ParseMark(s.Label)
	switch {
	case s.Label == "" && s.Template == nil:
		return s.rollOut(Repair) // Nobody watches for the first copies, so nothing is gained by waiting.
	case s.Label == "":
		return s.adopt()
	case mark.IsFor(s.Template):
		return s.asRolledOut(mark)
	case !mark.IsUndoneFor(s.Template):
		return Decision{Action: RecordUndo, Config: s.Template, Label: mark.UndoneFor(s.Template).String()}
	default:
		return s.asUndone(mark)
	}
}

// adopt takes a template over that has copies while its workload has no label: it was undone to a
// revision from before the workload opted out, or the manifest of another workload was taken for
// it. It stays as it is until an edit.
func (s State) adopt() Decision {
	if s.Problem != "" {
		return Decision{Action: Rest, Held: HeldByProblem}
	}
	mark := trigger.MarkOf(s.Wanted)
	if mark.IsFor(s.Template) {
		return s.keep(mark.String())
	}
	return Decision{Action: RecordUndo, Config: s.Template, Label: mark.UndoneFor(s.Template).String()}
}

// asRolledOut is for a template that has the config rolled out last.
func (s State) asRolledOut(mark trigger.Mark) Decision {
	switch {
	case s.Undone || mark.IsUndone(): // The undo was undone.
		return s.keep(mark.Again().String())
	case s.Problem != "":
		return s.repair(HeldByProblem)
	case mark.IsFor(s.Wanted):
		return s.repair("")
	case s.Failing && s.WhileFailing != trigger.Roll:
		return s.repair(HeldByFailure)
	default:
		return s.rollOut(s.pace())
	}
}

// asUndone is for a template that has another config than the one rolled out last, and that was
// noticed.
func (s State) asUndone(mark trigger.Mark) Decision {
	var d Decision
	switch {
	case s.Problem != "":
		d = s.repair(HeldByProblem)
	case mark.IsFor(s.Wanted):
		d = s.repair("")
	case s.AfterUndo == trigger.Pause && s.Undone:
		d = s.repair(HeldByUndo)
	default:
		return s.rollOut(s.pace())
	}
	d.KeepsUndone = true
	return d
}

// pace distinguishes an edit of the sources from one that comes together with the manifest.
func (s State) pace() Action {
	if s.IsPlain() {
		return Repair
	}
	return RollOut
}

func (s State) rollOut(how Action) Decision {
	if s.Problem != "" {
		return Decision{Action: Rest, Label: s.Label, Held: HeldByProblem}
	}
	return Decision{Action: how, Config: s.Wanted, Names: s.names(s.Wanted), Label: trigger.MarkOf(s.Wanted).String()}
}

// repair points a template that names sources themselves to the copies that its config names, and
// leaves any other.
func (s State) repair(held Held) Decision {
	if !s.IsPlain() {
		return Decision{Action: Rest, Label: s.Label, Held: held}
	}
	d := s.keep(s.Label)
	d.Held = held
	return d
}

// keep points the template to the copies that its config names.
func (s State) keep(label string) Decision {
	config := s.completed()
	moved := trigger.ParseMark(label).Moved(s.Template, config)
	return Decision{Action: Repair, Config: config, Names: s.names(config), Label: moved.String()}
}

// completed returns the template's config, with a copy also of each object that had none and that
// the template has begun to name. The old content of such an object is not stored anywhere, so the
// copy is of what the object holds now.
func (s State) completed() trigger.Config {
	config, now := s.Template, s.Wanted.Copies()
	for object := range s.Template.Uncopied() {
		if now[object] != "" && s.Used[object] {
			config = maps.Clone(config)
			config[object] = now[object]
		}
	}
	return config
}

// IsPlain reports whether the template names a source for which its config has a copy, or is to
// have one: a manifest was applied.
func (s State) IsPlain() bool {
	for object := range s.completed().Copies() {
		if s.Used[object] {
			return true
		}
	}
	return false
}

// names maps each source or copy that the template may name now to the name that a config wants.
func (s State) names(to trigger.Config) map[api.Ref]string {
	names := maps.Clone(to.Copies())
	if names == nil {
		names = map[api.Ref]string{}
	}
	copies := to.Copies()
	for object, copied := range s.Template.Copies() {
		names[object.Named(copied)] = cmp.Or(copies[object], object.Name)
	}
	for copied, object := range s.Strays {
		names[copied] = cmp.Or(copies[object], object.Name)
	}
	return names
}

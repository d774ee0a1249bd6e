// Package state decides which state the rollout of a workload's config is in, by what the workload
// has and what its triggers hold now. Commands, Events and exit codes share its states and their
// texts.
//
// It is pure: it does not know clients, and it reads no pods.
package state

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// Name is the name of a state.
type Name string

// The states. docs/states.md explains each.
const (
	NotTriggered Name = "not triggered"
	Pending      Name = "pending"
	HeldBack     Name = "held back"
	Paused       Name = "paused"
	Rolling      Name = "rolling out"
	Stuck        Name = "stuck"
	Undone       Name = "undone"
	NoEdit       Name = "no edit"
	Done         Name = "rolled out"
)

// ReasonHeldBack is the reason of the Events about edits that the controller holds back. Their
// texts begin with HeldBackPrefix.
const (
	ReasonHeldBack = "ConfigHeldBack"
	HeldBackPrefix = "Not rolled out: "
)

// ReasonBlocked is the reason of the Events about pods that a rollout waits for until somebody
// deletes them.
const ReasonBlocked = "ConfigBlocked"

// Names returns all states in the order of docs/states.md.
func Names() []Name {
	return []Name{NotTriggered, Pending, HeldBack, Paused, Rolling, Stuck, Undone, NoEdit, Done}
}

// Facts are what a state is decided by.
type Facts struct {
	Workload workload.Workload
	// Newest are the names of the copies that the triggers would have now, and "" of those that do
	// not exist. Triggers whose content is not known are missing.
	Newest map[api.Ref]string
	// Held is why the controller holds the newest edit back, as its last Event reports; empty if it
	// reports nothing.
	Held string
	// Blocking are the pods that the rollout waits for until somebody deletes them.
	Blocking []string
}

// State is a state and its texts.
type State struct {
	Name Name `json:"name"`
	// Why explains the state in one line. It is empty where the name is enough.
	Why string `json:"why,omitempty"`
	// Waits means that an edit has not reached the pods yet, and that it should.
	Waits bool `json:"waits"`
}

// String returns the name and the explanation.
func (s State) String() string {
	if s.Why == "" {
		return string(s.Name)
	}
	return string(s.Name) + ": " + s.Why
}

// Of decides the state.
func Of(f Facts) State {
	s := f.decide()
	if len(f.Blocking) > 0 && s.Name != NotTriggered {
		s.Why = strings.TrimPrefix(s.Why+"; ", "; ") + ByPods(f.Workload.Ref, f.Blocking)
	}
	return s
}

func (f Facts) decide() State {
	w := f.Workload
	value, key, isOptedIn := reloader.Wanted(w.Annotations, w.Template)
	text, hasConfig := w.Template.Annotations[trigger.ConfigAnnotation]
	if !isOptedIn && !hasConfig {
		return State{Name: NotTriggered}
	}
	config, err := trigger.ParseConfig(text)
	_, mistake := trigger.Parse(value)
	switch {
	case hasConfig && err != nil:
		return State{Name: HeldBack, Waits: true, Why: err.Error()}
	case isOptedIn && mistake != nil:
		return State{Name: HeldBack, Waits: true, Why: fmt.Sprintf("the annotation %s %s", key, oneLine(mistake))}
	case !isOptedIn:
		return State{Name: Pending, Why: "nothing triggers rollouts any more; the template gets the sources back"}
	case !hasConfig:
		return f.waiting("the controller has not made the first copies yet; if this lasts, see whether it runs")
	}
	return f.ofConfig(config)
}

func (f Facts) ofConfig(config trigger.Config) State {
	mark := trigger.ParseMark(f.Workload.Labels[trigger.RolloutLabel])
	newest, isKnown := f.newest(config)
	_, isUndone := f.Workload.Annotations[trigger.UndoneAnnotation]
	switch {
	case mark.IsFor(config) && (!isKnown || same(newest, config)):
		return f.progress()
	case mark.IsFor(config):
		return f.waiting(edited(newest, config))
	case isKnown && !mark.IsFor(newest) && isUndone && f.Workload.Annotations[trigger.AfterUndo] == trigger.Pause:
		return f.held(ByUndo(f.Workload.Ref))
	case isKnown && !mark.IsFor(newest):
		return f.waiting(edited(newest, config))
	case !isUndone && mark.IsUndone():
		return f.orPaused(State{
			Name: NoEdit, Why: "the last change was undone, and no source was edited since; the next edit is rolled out",
		})
	default:
		return f.orPaused(State{Name: Undone, Why: f.undone()})
	}
}

// newest returns the config by what the triggers hold now. It is known if all of them are.
func (f Facts) newest(config trigger.Config) (newest trigger.Config, isKnown bool) {
	value, _, _ := reloader.Wanted(f.Workload.Annotations, f.Workload.Template)
	objects, _ := trigger.Parse(value) // Of checked it.
	newest = trigger.Config{}
	for _, object := range objects {
		name, found := f.Newest[object]
		if !found {
			return nil, false
		}
		if _, isUnused := config.Uncopied()[object]; isUnused && name != "" {
			name = trigger.Uncopied(name)
		}
		newest[object] = name
	}
	return newest, true
}

// same reports whether both configs have the same versions, with copies or without.
func same(a, b trigger.Config) bool { return trigger.MarkOf(a).IsFor(b) }

// edited names the triggers that the template does not have as they are now.
func edited(newest, config trigger.Config) string {
	var names []string
	for _, object := range newest.Objects() {
		if before, found := config[object]; !found || before != newest[object] {
			names = append(names, object.String())
		}
	}
	if len(names) == 0 {
		return "the list of triggers has changed"
	}
	return strings.Join(names, ", ") + " was edited"
}

// waiting is the state of a workload whose template has to change.
func (f Facts) waiting(why string) State {
	w := f.Workload
	switch {
	case w.Paused:
		return State{Name: Paused, Waits: true, Why: why + "; " + ByPause(w.Ref)}
	case f.Held != "":
		return f.held(f.Held)
	case w.Progress.Exceeded && w.Annotations[trigger.WhileFailing] != trigger.Roll:
		return f.held(ByFailure(w.Ref))
	default:
		return State{Name: Pending, Waits: true, Why: why}
	}
}

func (f Facts) held(why string) State {
	if f.Workload.Paused {
		why += "; " + ByPause(f.Workload.Ref)
	}
	return State{Name: HeldBack, Waits: true, Why: why}
}

// orPaused is a state in which nothing waits, or that the workload is paused.
func (f Facts) orPaused(s State) State {
	if f.Workload.Paused {
		return State{Name: Paused, Why: strings.TrimPrefix(s.Why+"; ", "; ") + "no edit waits; " + ByPause(f.Workload.Ref)}
	}
	return s
}

// progress is the state of a workload whose template has the newest config.
func (f Facts) progress() State {
	p := f.Workload.Progress
	counts := fmt.Sprintf("pods with the new template: %d; available pods: %d", p.Counts.Updated, p.Counts.Available)
	switch {
	case p.Exceeded:
		return State{
			Name: Stuck, Waits: true,
			Why: counts + "; the progress deadline has passed: to go back, kubectl rollout undo " + f.Workload.String(),
		}
	case f.Workload.Paused:
		return f.orPaused(State{})
	case !p.Observed:
		return State{Name: Rolling, Why: "Kubernetes has not seen the new template yet"}
	case !p.Done:
		return State{Name: Rolling, Why: counts}
	default:
		return State{Name: Done}
	}
}

// undone returns since when the last change is undone, and what goes on.
func (f Facts) undone() string {
	text := "the last change was undone"
	var undone trigger.Undone
	if json.Unmarshal([]byte(f.Workload.Annotations[trigger.UndoneAnnotation]), &undone) == nil && !undone.At.IsZero() {
		text += " at " + undone.At.UTC().Format(time.RFC3339)
	}
	if f.Workload.Annotations[trigger.AfterUndo] == trigger.Pause {
		return fmt.Sprintf("%s; edits wait until: kubectl annotate %s %s-", text, f.Workload.Ref, trigger.UndoneAnnotation)
	}
	return text + "; it stays so until a source is edited"
}

// ByUndo returns why an edit waits after an undo, and what to type.
func ByUndo(ref workload.Ref) string {
	return fmt.Sprintf("%s was undone and %s is %s; to go on: kubectl annotate %s %s-",
		ref, trigger.AfterUndo, trigger.Pause, ref, trigger.UndoneAnnotation)
}

// ByPause returns what ends a pause.
func ByPause(ref workload.Ref) string {
	return "the deployment is paused; `kubectl rollout resume " + ref.String() + "` rolls out what has changed since"
}

// ByFailure returns why an edit waits while a rollout fails, and what to type.
func ByFailure(ref workload.Ref) string {
	return fmt.Sprintf("the rollout of the last change gets nowhere; to go back, after which this change is tried: "+
		"kubectl rollout undo %s; to try it at once: kubectl annotate %s %s=%s", ref, ref, trigger.WhileFailing, trigger.Roll)
}

// ByPods returns why a StatefulSet waits for pods until somebody deletes them, and what to type.
func ByPods(ref workload.Ref, pods []string) string {
	are, them := "pod %s is not ready and has another template", "it"
	if len(pods) > 1 {
		are, them = "pods %s are not ready and have another template", "them"
	}
	return fmt.Sprintf(are+" than %s, and Kubernetes does not replace %s by itself; to let the rollout continue: "+
		"kubectl delete pod -n %s %s",
		strings.Join(pods, ", "), ref, them, ref.Namespace, strings.Join(pods, " "))
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

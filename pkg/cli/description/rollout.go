package description

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// RolloutOf says what the rollout controller has made of a workload; nil of one that it has nothing to do with. Revision is
// the one that the template is, if that is known.
func RolloutOf(w workload.Workload, revision string) *Rollout {
	wanted, key, isOptedIn := trigger.Wanted(w.Annotations)
	text, isRolledOut := w.Template.Annotations[trigger.ConfigAnnotation]
	if !isOptedIn && !isRolledOut {
		return nil
	}
	r := &Rollout{TriggeredBy: wanted, Revision: revision, Copies: []Copy{}}
	if isOptedIn {
		r.AfterUndo = cmp.Or(w.Annotations[trigger.AfterUndo], trigger.Roll)
		r.WhileFailing = cmp.Or(w.Annotations[trigger.WhileFailing], "as the controller is told, hold if it is told nothing")
	}
	config, err := trigger.ParseConfig(text)
	if isRolledOut && err == nil {
		r.Copies = CopiesIn(config)
	}
	_, mistake := trigger.Parse(wanted)
	switch {
	case isOptedIn && mistake != nil:
		r.State = fmt.Sprintf("not rolled out: the annotation %s %s", key, mistake)
	case isRolledOut && err != nil:
		r.State = "not known: " + err.Error()
	case !isRolledOut:
		r.State = "the rollout controller has not made it a revision yet; if this stays so, see whether it runs"
	case !isOptedIn:
		r.State = "opted out: the template gets the sources back"
	default:
		r.State = state(w, config)
	}
	if w.Paused {
		r.State += "; paused: `kubectl rollout resume` rolls out what has changed since"
	}
	return r
}

// state says whether the config of a template is the one that was rolled out last.
func state(w workload.Workload, config trigger.Config) string {
	if trigger.ParseMark(w.Labels[trigger.RolloutLabel]).IsFor(config) {
		return "rolled out"
	}
	text := "the last change was undone"
	var undone trigger.Undone
	if json.Unmarshal([]byte(w.Annotations[trigger.UndoneAnnotation]), &undone) == nil && !undone.At.IsZero() {
		text += " at " + undone.At.UTC().Format("2006-01-02T15:04:05Z")
	}
	if w.Annotations[trigger.AfterUndo] == trigger.Pause {
		return text + fmt.Sprintf("; it stays so until: kubectl annotate %s %s-", w.Ref, trigger.UndoneAnnotation)
	}
	return text + "; it stays so until a source is edited"
}

// CopiesIn returns which copies a config names.
func CopiesIn(config trigger.Config) []Copy {
	copies := []Copy{}
	copied, uncopied := config.Copies(), config.Uncopied()
	for _, source := range config.Objects() {
		next := Copy{Of: source.String(), Unused: uncopied[source]}
		if name := copied[source]; name != "" {
			next.Copy = trigger.Object{Kind: source.Kind, Name: name}.String()
		}
		copies = append(copies, next)
	}
	return copies
}

package description

import (
	"cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// RolloutOf describes the rollout of a workload; nil if the controller does not manage it.
func RolloutOf(w workload.Workload, s state.State) *Rollout {
	wanted, _, isOptedIn := trigger.Wanted(w.Annotations)
	text, isRolledOut := w.Template.Annotations[trigger.ConfigAnnotation]
	if !isOptedIn && !isRolledOut {
		return nil
	}
	r := &Rollout{TriggeredBy: wanted, State: s.String(), Copies: []Copy{}}
	if isOptedIn {
		r.AfterUndo = cmp.Or(w.Annotations[trigger.AfterUndo], trigger.Roll)
		r.WhileFailing = cmp.Or(w.Annotations[trigger.WhileFailing], "as configured in the controller, hold by default")
	}
	config, err := trigger.ParseConfig(text)
	if isRolledOut && err == nil {
		r.Copies = CopiesIn(config)
	}
	return r
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

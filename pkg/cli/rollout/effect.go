package rollout

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// remarkEffect prints what the rollout controller does after the undo.
func (u *undo) remarkEffect(after runtime.Object) {
	w, _ := selection.ViewOf(after)
	ref := u.history.Workload.Ref
	if len(u.missing) > 0 {
		u.Remark("note: %s: pods of revision %d cannot start as it is: %s", ref, u.target.Number, strings.Join(u.missing, "; "))
	}
	_, _, triggered := reloader.Wanted(w.Annotations, w.Template)
	switch {
	case !u.history.OptedIn && !triggered:
		return // The controller has no part in it.
	case !triggered:
		u.Remark("note: %s was triggered by nothing at revision %d, and is not any more: no edit is rolled out until kubectl liveconfig set trigger %s",
			ref, u.target.Number, ref)
		return
	}
	for _, item := range u.target.Items {
		if item.IsSource() {
			u.Remark("note: revision %d uses %s itself: its pods get what that holds now", u.target.Number, item.Source)
		}
		if item.Unused != "" {
			u.Remark("note: %s triggers rollouts and pods do not use it: an undo does not change what it holds", item.Source)
		}
	}
	from, found := u.history.Current()
	switch {
	case found && len(revisions.Changes(from.Items, u.target.Items)) == 0:
		u.Remark("note: the config stays as it is: revision %d has the same", u.target.Number)
	case u.history.Mark.IsFor(u.target.Config):
		u.Remark("note: this is the config that was rolled out last: nothing is undone any more, and edits are rolled out")
	default:
		u.remarkHold(w.Annotations)
	}
}

// remarkHold prints how long the config of the undo stays.
func (u *undo) remarkHold(annotations map[string]string) {
	ref := u.history.Workload.Ref
	sources := "what triggers it"
	if len(u.history.Triggers) > 0 {
		sources = strings.ReplaceAll(trigger.Format(u.history.Triggers), ",", " or ")
	}
	// Where the revision has no value, the controller restores that of the Deployment.
	if cmp.Or(annotations[trigger.AfterUndo], u.history.Workload.Annotations[trigger.AfterUndo]) == trigger.Pause {
		u.Remark("note: the config stays until kubectl liveconfig rollout resume %s: edits of %s wait", ref, sources)
		return
	}
	u.Remark("note: the config stays until somebody edits %s, which is rolled out; to hold edits back: kubectl annotate %s %s=%s",
		sources, ref, trigger.AfterUndo, trigger.Pause)
}

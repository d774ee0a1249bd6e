package rollout

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// TestWishesOutliveTheUndo: `kubectl rollout undo` takes annotations away that a Deployment did not have at the time of the
// old revision. What was wished since counts all the same, and comes back.
func TestWishesOutliveTheUndo(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "deployment/web"
	s.story(ref, manifest("deployment", "web"), "one", "two")
	s.kubectl("annotate", ref, trigger.AfterUndo+"="+trigger.Pause)
	s.eventually(func() error { return s.copiedToRevision("web", trigger.AfterUndo) })
	s.undoes(ref)
	s.event("Deployment/web", rollout.ReasonUndone, "stays so until: kubectl annotate")
	if got := s.deployment("web").Annotations[trigger.AfterUndo]; got != trigger.Pause {
		t.Errorf("after the undo the annotation %s is %q, want %q", trigger.AfterUndo, got, trigger.Pause)
	}
	s.unmoved(ref, "an edit while paused by the undo", func() { s.edit("foo", "three") })
	s.event("Deployment/web", rollout.ReasonHeldBack, "was undone")
	s.kubectl("annotate", ref, trigger.UndoneAnnotation+"-")
	s.reached(ref, foo("three"))
}

package trigger_test

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// TestMarksDoNotTellCopiesFromVersions: whether there is a copy depends on what the template names, so it must not look like an
// edit.
func TestMarksDoNotTellCopiesFromVersions(t *testing.T) {
	t.Parallel()
	with, without := trigger.Config{secret("bar"): "bar-1"}, trigger.Config{secret("bar"): trigger.Uncopied("bar-1")}
	edited := trigger.Config{secret("bar"): trigger.Uncopied("bar-2")}
	mark := trigger.MarkOf(with).UndoneFor(without)
	if !mark.IsFor(without) || !mark.IsUndoneFor(with) || mark.IsFor(edited) {
		t.Errorf("the mark %s distinguishes a copy from the same version without one, or does not distinguish versions", mark)
	}
	moved := mark.Moved(without, edited)
	if !moved.IsFor(edited) || !moved.IsUndoneFor(edited) || moved.IsFor(with) {
		t.Errorf("the mark %s moved to %s", mark, moved)
	}
	if got := mark.Moved(edited, without); got != mark {
		t.Errorf("a mark that is not for a config moved with it: %s, want %s", got, mark)
	}
}

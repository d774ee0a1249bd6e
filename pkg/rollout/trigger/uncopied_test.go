package trigger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// TestUncopied: a version without a copy is read as it is written, and is not a copy.
func TestUncopied(t *testing.T) {
	t.Parallel()
	c := trigger.Config{configMap("foo"): "foo-0123456789", secret("bar"): trigger.Uncopied("bar-abcdefabcd"), secret("gone"): ""}
	const want = `{"configmap/foo":"foo-0123456789","secret/bar":"uncopied:bar-abcdefabcd","secret/gone":""}`
	if got := c.String(); got != want {
		t.Errorf("String = %s, want %s", got, want)
	}
	again, err := trigger.ParseConfig(want)
	if diff := cmp.Diff(c, again); err != nil || diff != "" {
		t.Errorf("ParseConfig: %v (-want +got)\n%s", err, diff)
	}
	if diff := cmp.Diff(map[trigger.Object]string{configMap("foo"): "foo-0123456789"}, c.Copies()); diff != "" {
		t.Errorf("Copies (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[trigger.Object]string{secret("bar"): "bar-abcdefabcd"}, c.Uncopied()); diff != "" {
		t.Errorf("Uncopied (-want +got)\n%s", diff)
	}
	if _, err := trigger.ParseConfig(`{"secret/bar":"uncopied:"}`); err == nil {
		t.Error("ParseConfig takes a version that is empty")
	}
}

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

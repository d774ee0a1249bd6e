package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
)

// TestStory is the founding document's: an edit is a revision, and an undo brings the config back and stays.
//
// Fault 32.
func TestStory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.configMap("foo", "one")
	s.apply(deployment("web"))
	first := s.rolledOut("web", map[string]string{"configmap/foo": "one"})

	s.configMap("foo", "two")
	second := s.rolledOut("web", map[string]string{"configmap/foo": "two"})
	if cmp.Equal(first, second) {
		t.Fatalf("the edit did not change the copy: %v", second)
	}

	s.kubectl("rollout", "undo", "deployment/web")
	if got := s.rolledOut("web", map[string]string{"configmap/foo": "one"}); !cmp.Equal(got, first) {
		t.Errorf("after the undo the copies are %v, want %v", got, first)
	}
	s.event("Deployment/web", rollout.ReasonUndone, first["configmap/foo"])

	s.configMap("foo", "three")
	s.rolledOut("web", map[string]string{"configmap/foo": "three"})
}

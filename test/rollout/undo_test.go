package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// foo is a config of nothing but foo.
func foo(value string) map[string]string { return map[string]string{"configmap/foo": value} }

// story has foo rolled out with each value, one after the other, and returns the names of the copies.
func (s *site) story(ref, manifest string, values ...string) []string {
	s.t.Helper()
	var copies []string
	for i, value := range values {
		if i == 0 {
			s.putConfigMap("foo", value)
			s.apply(manifest)
		} else {
			s.edit("foo", value)
		}
		copies = append(copies, s.reached(ref, foo(value))["configmap/foo"])
	}
	return copies
}

// mounted returns the name of the ConfigMap that the pods of a workload mount.
func (s *site) mounted(ref string) string {
	s.t.Helper()
	_, template := s.see(ref)
	return template.Spec.Volumes[0].ConfigMap.Name
}

// TestUndoStays: no time, no restart and nothing that is not an edit of the source takes an undone workload forward again.
//
// Fault 32.
func TestUndoStays(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, ref := newSite(t), kind+"/web"
			first := s.story(ref, manifest(kind, "web"), "one", "two")[0]
			if got := s.kubectl("rollout", "history", ref); len(strings.Fields(got)) < 2*2 {
				t.Errorf("kubectl shows no history of two revisions:\n%s", got)
			}
			before := s.past(ref)
			s.undoes(ref)
			if got := s.mounted(ref); got != first {
				t.Fatalf("after the undo the pods mount %s, want %s", got, first)
			}
			s.wantRevisions(ref, before, 0)

			s.unmoved(ref, "waiting", func() {})
			s.unmoved(ref, "a restart", s.restart)
			s.unmoved(ref, "an annotation of the source", func() { s.kubectl("annotate", "configmap/foo", "note=mine") })
			s.unmoved(ref, "a label of the source", func() { s.kubectl("label", "configmap/foo", "note=mine") })

			before = s.past(ref)
			s.edit("foo", "three")
			s.reached(ref, foo("three"))
			s.wantRevisions(ref, before, 1)
		})
	}
}

// TestUndoStaysUnderTheSameManifest: a user who applies the manifest again, which names the source, gets the copy that the undo
// went back to, and not the newest.
//
// Fault 32.
func TestUndoStaysUnderTheSameManifest(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, ref := newSite(t), kind+"/web"
			first := s.story(ref, manifest(kind, "web"), "one", "two")[0]
			s.undoes(ref)
			before := s.past(ref)

			s.apply(manifest(kind, "web"))
			s.event(kindOf(kind)+"/web", rollout.ReasonRepaired, first)
			s.kubectl("rollout", "status", ref, "--timeout="+soon.String())
			if got := s.mounted(ref); got != first {
				t.Errorf("the pods mount %s, want %s", got, first)
			}
			after := s.past(ref)
			if got, want := []string{after.Config, after.Rolled}, []string{before.Config, before.Rolled}; !cmp.Equal(got, want) || !after.Undone {
				t.Errorf("the config and the mark are %v, want %v and that of an undo", got, want)
			}
			t.Logf("for a moment the template named the source: %d revisions and %d pods came of that",
				len(after.Revisions)-len(before.Revisions), after.Pods-before.Pods)

			s.eventually(func() error { return s.noRevisionIsPlain(ref) })
			s.unmoved(ref, "a restart", s.restart)
			s.edit("foo", "three")
			s.reached(ref, foo("three"))
		})
	}
}

// kindOf returns a kind as Events name it.
func kindOf(kind string) string {
	return map[string]string{"deployment": "Deployment", "statefulset": "StatefulSet", "daemonset": "DaemonSet"}[kind]
}

// TestUndoToAnyRevision: each revision that is kept can be gone back to and stays, and the newest takes the mark away.
//
// Fault 32.
func TestUndoToAnyRevision(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "deployment/web"
	copies := s.story(ref, deployment("web"), "one", "two", "three", "four")
	for i, value := range []string{"two", "one", "three"} {
		copied := copies[slices.Index([]string{"one", "two", "three"}, value)]
		s.undoes(ref, "--to-revision="+s.numberOf(copied))
		if got := s.reached(ref, foo(value))["configmap/foo"]; got != copied {
			t.Errorf("undo %d went to %s, want %s", i, got, copied)
		}
		s.unmoved(ref, "waiting after the undo to "+value, func() {})
	}

	s.kubectl("rollout", "undo", ref, "--to-revision="+s.numberOf(copies[3]))
	s.cleared(ref)
	s.event("Deployment/web", rollout.ReasonUndone, "Nothing is undone any more")
	s.reached(ref, foo("four"))
	s.unmoved(ref, "waiting after the undo of the undo", func() {})
	if got := s.repairs("Deployment/web"); len(got) > 0 {
		t.Errorf("nobody applied the manifest again, but an Event says so: %q", got)
	}
	before := s.past(ref)
	s.edit("foo", "five")
	s.reached(ref, foo("five"))
	s.wantRevisions(ref, before, 1)
}

// cleared waits until nothing on a workload shows that it was undone.
func (s *site) cleared(ref string) {
	s.t.Helper()
	s.eventually(func() error {
		if is := s.past(ref); is.Undone || trigger.ParseMark(is.Rolled).IsUndone() {
			return fmt.Errorf("still marked as undone: %+v", is)
		}
		return nil
	})
}

// TestUndoToBeforeTheOptIn: the revision from before a running Deployment was annotated names the source itself, and may.
func TestUndoToBeforeTheOptIn(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "deployment/web"
	s.putConfigMap("foo", "one")
	s.apply(manifest("deployment", "web", "  annotations: {liveconfig.internal/triggered-by: configmap/foo}\n", ""))
	s.kubectl("rollout", "status", ref)
	s.kubectl("annotate", ref, "liveconfig.internal/triggered-by=configmap/foo")
	copied := s.reached(ref, foo("one"))["configmap/foo"]

	s.kubectl("rollout", "undo", ref)
	s.kubectl("rollout", "status", ref)
	for range 3 {
		s.beat() // Whether there is an undo to be recorded depends on whether the old ReplicaSet was annotated too.
	}
	if got := s.mounted(ref); got != "foo" {
		t.Fatalf("after the undo the pods mount %s, want foo", got)
	}
	s.unmoved(ref, "a restart", s.restart)
	s.kubectl("annotate", "--overwrite", ref, "liveconfig.internal/triggered-by=configmap/foo")
	s.beat()
	s.unmoved(ref, "waiting", func() {})

	s.edit("foo", "two")
	s.reached(ref, foo("two"))
	s.undoes(ref, "--to-revision="+s.numberOf(copied))
	s.unmoved(ref, "waiting", func() {})
}

// TestUndoOfTheOptIn: where one apply changed the template and opted in, the undo takes the annotation away as well. Then
// nothing triggers the workload, until another undo goes forward.
func TestUndoOfTheOptIn(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "deployment/web"
	s.putConfigMap("foo", "one")
	plain := strings.NewReplacer("  annotations: {liveconfig.internal/triggered-by: configmap/foo}\n", "", "main:1", "main:0").Replace(deployment("web"))
	s.apply(plain)
	s.kubectl("rollout", "status", ref)
	s.apply(deployment("web"))
	copied := s.reached(ref, foo("one"))["configmap/foo"]
	optedIn := s.past(ref)

	s.kubectl("rollout", "undo", ref, "--to-revision=1")
	s.kubectl("rollout", "status", ref)
	meta, _ := s.see(ref)
	if got, _, found := trigger.Wanted(meta.Annotations); found || s.mounted(ref) != "foo" {
		t.Fatalf("the undo left the trigger %q, and pods mount %s, want foo", got, s.mounted(ref))
	}
	s.unmoved(ref, "an edit that triggers nothing", func() { s.edit("foo", "two") })
	s.edit("foo", "one")

	s.kubectl("rollout", "undo", ref, "--to-revision="+s.numberOf(copied))
	s.reached(ref, foo("one"))
	s.unmoved(ref, "waiting", func() {})
	if got := s.past(ref); got.Rolled != optedIn.Rolled || got.Undone {
		t.Errorf("forward again the mark is %s (undone: %t), want %s", got.Rolled, got.Undone, optedIn.Rolled)
	}
	s.edit("foo", "three")
	s.reached(ref, foo("three"))
}

// TestPauseAfterUndo: with after-undo: pause edits wait until somebody takes the mark of the undo away, and are then one
// rollout.
func TestPauseAfterUndo(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := fixture.FreeAddress(t)
			s, ref := newSite(t, "--http-endpoint="+address), kind+"/web"
			old, now := annotated("liveconfig.internal/after-undo: pause")
			s.story(ref, manifest(kind, "web", old, now), "one", "two")
			s.undoes(ref)
			s.event(kindOf(kind)+"/web", rollout.ReasonUndone, "stays so until: kubectl annotate")

			s.unmoved(ref, "an edit while paused by the undo", func() { s.edit("foo", "three") })
			s.event(kindOf(kind)+"/web", rollout.ReasonHeldBack, "was undone")
			if got := s.measured(address, `held_back{reason="undone"}`); got != "1" {
				t.Errorf("the metric says that %s workloads are held back, want 1", got)
			}
			s.unmoved(ref, "an edit and a restart while paused by the undo", func() { s.edit("foo", "four"); s.restart() })

			before := s.past(ref)
			s.kubectl("annotate", ref, trigger.UndoneAnnotation+"-")
			s.reached(ref, foo("four"))
			s.wantRevisions(ref, before, 1)
			if diff := cmp.Diff([]string{"four", "one", "two"}, s.read("web")); diff != "" {
				t.Errorf("the configs that pods ever had (-want +got):\n%s", diff)
			}
			s.cleared(ref)
			if got := s.measured(address, `held_back{reason="undone"}`); got != "0" {
				t.Errorf("the metric says that %s workloads are held back, want 0", got)
			}
		})
	}
}

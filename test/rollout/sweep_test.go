package rollout

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// TestUndoAfterApply: a manifest that is applied again begins a revision with the sources' own names. It is gone soon, so
// that an undo goes back to the config before, and not to it.
//
// Fault 32.
func TestUndoAfterApply(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, ref := newSite(t), kind+"/web"
			plain := manifest(kind, "web")
			s.story(ref, plain, "one", "two")
			s.apply(plain)
			s.reached(ref, foo("two"))
			s.eventually(func() error { return s.noRevisionIsPlain(ref) })

			s.kubectl("rollout", "undo", ref)
			s.reached(ref, foo("one"))
			s.unmoved(ref, "waiting after the undo", func() {})
		})
	}
}

// noRevisionIsPlain returns nil when no revision with a config names a source.
func (s *site) noRevisionIsPlain(ref string) error {
	s.t.Helper()
	meta, _ := s.see(ref)
	for _, t := range s.templates(meta.UID) {
		if t.Annotations[trigger.ConfigAnnotation] != "" && t.Spec.Volumes[0].ConfigMap.Name == "foo" {
			return errors.New("a revision names the source")
		}
	}
	return nil
}

// templates returns the pod templates that a workload has, or had.
func (s *site) templates(owner types.UID) []*corev1.PodTemplateSpec {
	s.t.Helper()
	var found []*corev1.PodTemplateSpec
	for _, set := range s.replicaSets() {
		if r := workload.OfReplicaSet(&set); r.Owner == owner {
			found = append(found, r.Template)
		}
	}
	list, err := s.client.AppsV1().ControllerRevisions(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		if r, ok := workload.OfControllerRevision(&list.Items[i]); ok && r.Owner == owner {
			found = append(found, r.Template)
		}
	}
	return found
}

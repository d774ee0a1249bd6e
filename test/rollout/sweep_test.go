package rollout

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
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

			s.undoes(ref)
			s.reached(ref, foo("one"))
			s.unmoved(ref, "waiting after the undo", func() {})
		})
	}
}

// TestASweptRevisionIsSeenLate: a revision with the source's own name goes also if the controller hears of it when all has been
// done.
//
// Fault 32.
func TestASweptRevisionIsSeenLate(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "deployment/web"
	s.story(ref, deployment("web"), "one")
	s.beat()
	late := s.replicaSets()[0]
	for _, set := range s.replicaSets() {
		if set.Spec.Template.Annotations[trigger.ConfigAnnotation] != "" {
			late = set
		}
	}
	none := int32(0)
	late.ObjectMeta = metav1.ObjectMeta{
		Name: "web-late", OwnerReferences: late.OwnerReferences, Annotations: map[string]string{"deployment.kubernetes.io/revision": "1"},
		Labels: map[string]string{"app": "web", "pod-template-hash": "late"},
	}
	late.Spec.Replicas, late.Spec.Selector.MatchLabels, late.Spec.Template.Labels = &none, late.Labels, late.Labels
	late.Spec.Template.Spec.Volumes[0].ConfigMap.Name = "foo"
	if _, err := s.client.AppsV1().ReplicaSets(s.namespace).Create(t.Context(), &late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s.noRevisionIsPlain(ref) == nil {
		t.Log("it was gone at once")
	}
	s.eventually(func() error { return s.noRevisionIsPlain(ref) })
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
	expect.NoError(s.t, err)
	for i := range list.Items {
		if r, ok := workload.OfControllerRevision(&list.Items[i]); ok && r.Owner == owner {
			found = append(found, r.Template)
		}
	}
	return found
}

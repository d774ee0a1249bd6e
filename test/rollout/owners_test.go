package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

var fooMap = api.Ref{Kind: api.ConfigMap, Name: "foo"}

// ownedByRevisions waits until a copy has so many owners, all of which are revisions, and none in the way of their removal.
func (s *site) ownedByRevisions(name string, count int) {
	s.t.Helper()
	s.eventually(func() error {
		o, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, owner := range o.OwnerReferences {
			if owner.Kind != "ReplicaSet" && owner.Kind != "ControllerRevision" || owner.Controller != nil || owner.BlockOwnerDeletion != nil {
				return fmt.Errorf("%s has the owner %v", name, owner)
			}
		}
		if len(o.OwnerReferences) != count {
			return fmt.Errorf("%s has the owners %v, want %d", name, o.OwnerReferences, count)
		}
		return nil
	})
}

// left waits until these copies are there, and no others.
func (s *site) left(names ...string) {
	s.t.Helper()
	slices.Sort(names)
	s.eventually(func() error {
		var got []string
		for name := range s.copyUIDs() {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, names) {
			return fmt.Errorf("there are the copies %v, want %v", got, names)
		}
		return nil
	})
}

// areSame checks that copies are the same objects still.
func (s *site) areSame(uids map[string]string) {
	s.t.Helper()
	now := s.copyUIDs()
	for name, uid := range uids {
		if now[name] != uid {
			s.t.Errorf("the copy %s of UID %s is gone; there are %v", name, uid, now)
		}
	}
}

// TestWorkloadsShareACopy has workloads of one source use one copy, which goes with the last of them.
//
// Fault 34.
func TestWorkloadsShareACopy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web") + "---\n" + deployment("api") + "---\n" + strings.ReplaceAll(deployment("old"), "foo", "bar"))
	s.putConfigMap("bar", "one")
	one := s.follows("web", "configmap/foo")[fooMap]
	s.follows("api", "configmap/foo")
	bar := s.follows("old", "configmap/bar")[api.Ref{Kind: api.ConfigMap, Name: "bar"}]
	s.left(one, bar)
	s.ownedByRevisions(one, 2)
	s.putConfigMap("foo", "two")
	two := s.follows("web", "configmap/foo")[fooMap]
	s.follows("api", "configmap/foo")
	s.left(one, two, bar)
	s.ownedByRevisions(two, 2)
	shared := s.copyUIDs()
	delete(shared, bar)

	s.kubectl("delete", "deployment", "web", "old")
	s.left(one, two) // That of the other is gone, so the garbage collector was there.
	s.ownedByRevisions(one, 1)
	s.ownedByRevisions(two, 1)
	s.areSame(shared)
	s.kubectl("delete", "deployment", "api")
	s.left()
}

// TestCopiesGoWithRevisions has the copies of as many revisions stay as Kubernetes keeps, and an undo to each of those find
// its copy.
//
// Fault 34.
func TestCopiesGoWithRevisions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "0")
	s.apply(strings.Replace(deployment("web"), "replicas: 2", "replicas: 1\n  revisionHistoryLimit: 1", 1))
	var names []string
	for i := range 4 {
		s.putConfigMap("foo", fmt.Sprint(i))
		names = append(names, s.follows("web", "configmap/foo")[fooMap])
	}
	s.left(names[2:]...)
	s.ownedByRevisions(names[2], 1)
	s.kubectl("rollout", "undo", "deployment/web")
	s.rolledOut("web", map[string]string{"configmap/foo": "2"})
	s.left(names[2:]...)
	s.kubectl("delete", "deployment", "web")
	s.left()
}

// TestOrphans has copies stay with the revisions that somebody leaves behind, be they a deleted Deployment's or a deleted
// ReplicaSet's pods. An owner that adopts the revisions has the copies too, and they go with them in the end.
//
// Fault 34.
func TestOrphans(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	one := s.follows("web", "configmap/foo")[fooMap]
	s.putConfigMap("foo", "two")
	two := s.follows("web", "configmap/foo")[fooMap]
	s.ownedByRevisions(one, 1)
	s.ownedByRevisions(two, 1)
	before := s.copyUIDs()

	s.kubectl("delete", "deployment", "web", "--cascade=orphan")
	s.apply(deployment("web"))
	if got := s.follows("web", "configmap/foo")[fooMap]; got != two {
		t.Errorf("the new Deployment has the copy %s, want %s as before", got, two)
	}
	s.ownedByRevisions(one, 1)
	s.ownedByRevisions(two, 1)

	old := s.replicaSetOf(one)
	s.kubectl("delete", "replicaset", old, "--cascade=orphan")
	s.eventually(func() error {
		if owners := s.configMapNow(one).OwnerReferences; len(owners) > 0 {
			return fmt.Errorf("%s still has the owners %v", one, owners)
		}
		return nil
	})
	s.putConfigMap("foo", "one")
	s.follows("web", "configmap/foo")
	s.ownedByRevisions(one, 1)
	s.areSame(before)
	s.kubectl("delete", "deployment", "web")
	s.left()
}

// replicaSetOf returns the ReplicaSet whose pods use a copy.
func (s *site) replicaSetOf(name string) string {
	s.t.Helper()
	for _, set := range s.replicaSets() {
		if strings.Contains(set.Spec.Template.Annotations[trigger.ConfigAnnotation], name) {
			return set.Name
		}
	}
	s.t.Fatalf("no ReplicaSet uses %s", name)
	return ""
}

// TestCopyNobodyCameFor has a copy removed that was made for a template which never came, but not before the template
// could have come.
func TestCopyNobodyCameFor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	s.follows("web", "configmap/foo")
	d := s.deployment("web")
	made, err := copies.OfConfigMap(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "foo", Namespace: s.namespace}, Data: map[string]string{"config": "never"},
	})
	expect.NoError(t, err)
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID}}
	made, err = s.client.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), made, metav1.CreateOptions{})
	expect.NoError(t, err)
	s.eventually(func() error {
		_, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), made.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		default:
			return fmt.Errorf("%s is still there", made.Name)
		}
	})
	if age := time.Since(made.CreationTimestamp.Time); age < time.Minute {
		t.Errorf("the copy was removed after %s, want a minute at least", age)
	}
}

// TestRevisionsOfOtherKinds has copies belong to the revisions of StatefulSets and DaemonSets as they do to ReplicaSets.
//
// Fault 34.
func TestRevisionsOfOtherKinds(t *testing.T) {
	t.Parallel()
	for kind, change := range map[string][]string{
		"StatefulSet": {"replicas: 2", "serviceName: web\n  revisionHistoryLimit: 1"},
		"DaemonSet":   {"  replicas: 2\n", "  revisionHistoryLimit: 1\n"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.putConfigMap("foo", "0")
			manifest := strings.Replace(strings.Replace(deployment("web"), "Deployment", kind, 1), "  progressDeadlineSeconds: 600\n", "", 1)
			s.apply(strings.Replace(manifest, change[0], change[1], 1))
			var names []string
			for i := range 4 {
				s.putConfigMap("foo", fmt.Sprint(i))
				s.reached(strings.ToLower(kind)+"/web", map[string]string{"configmap/foo": fmt.Sprint(i)})
				_, template := s.see(strings.ToLower(kind) + "/web")
				names = append(names, template.Spec.Volumes[0].ConfigMap.Name)
			}
			s.left(names[2:]...)
			s.ownedByRevisions(names[2], 1)
			s.ownedByRevisions(names[3], 1)
			s.kubectl("delete", kind, "web")
			s.left()
		})
	}
}

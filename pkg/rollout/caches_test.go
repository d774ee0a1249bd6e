package rollout

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// idleController returns a controller that does not run, whose caches are empty.
func idleController(t *testing.T) *Controller {
	t.Helper()
	c, err := New(Config{
		Client: fake.NewClientset(), Metadata: metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()),
		DriverName: "csi.liveconfig.internal", Secrets: true, Roles: true, Rate: 10, HoldFailing: true, ProgressDeadline: time.Minute,
		Events: record.NewFakeRecorder(100), Metrics: NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// add puts objects into a cache as the cache has them.
func add(t *testing.T, informers []cache.SharedIndexInformer, objects ...any) {
	t.Helper()
	for _, o := range objects {
		if err := informers[0].GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
}

// cached puts an object, as the API server has it, into the caches, and returns what they have of it.
func cached[T any](t *testing.T, c *Controller, object any) T {
	t.Helper()
	informers, transform := c.caches.revisions, revisionTransform(c.cfg.DriverName)
	if _, ok := object.(*appsv1.Deployment); ok {
		informers, transform = c.caches.workloads[workload.Deployment], workloadTransform(c.cfg)
	}
	item, err := transform(object)
	if err != nil {
		t.Fatal(err)
	}
	add(t, informers, item)
	is, ok := item.(T)
	if !ok {
		t.Fatalf("the cache has a %T of the %T", item, object)
	}
	return is
}

// replicaSetOf returns a ReplicaSet that belongs to a Deployment of this UID.
func replicaSetOf(owner types.UID, namespace, name, number, config string) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), ResourceVersion: "1",
		Annotations: map[string]string{"deployment.kubernetes.io/revision": number, trigger.AfterUndo: trigger.Pause},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: owner, Controller: new(true),
		}},
	}}
	set.Spec.Template.Annotations = map[string]string{trigger.ConfigAnnotation: config}
	return set
}

// TestOwnersAreOfOneNamespace: an owner is named by its UID inside of a namespace only. An object of another namespace can
// name any UID as its owner, and must change nothing about that owner.
//
// Fault 42.
func TestOwnersAreOfOneNamespace(t *testing.T) {
	t.Parallel()
	c := idleController(t)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "victim", Name: "web", UID: "victims-uid", ResourceVersion: "1",
		Annotations: map[string]string{trigger.TriggeredBy: "configmap/foo"},
		Labels:      map[string]string{trigger.RolloutLabel: "0123456789abcdef"},
	}}
	d.Spec.Template.Annotations = map[string]string{trigger.ConfigAnnotation: `{"configmap/foo":"foo-0000000001"}`}
	h := cached[*cachedWorkload](t, c, d)
	own := cached[*cachedRevision](t, c, replicaSetOf(d.UID, "victim", "web-1", "1", `{"configmap/foo":"foo-0000000001"}`))
	foreign := cached[*cachedRevision](t, c, replicaSetOf(d.UID, "attacker", "web-2", "2", `{"configmap/foo":"foo-0000000002"}`))

	if found, ok := c.caches.workloadOf(own); !ok || found != h {
		t.Errorf("the workload of the Deployment's own revision = %v, %t", found, ok)
	}
	if found, ok := c.caches.workloadOf(foreign); ok {
		t.Errorf("a revision of namespace %s has the workload %s/%s", foreign.Namespace, found.Namespace, found.Name)
	}
	if c.changedConfig(h) {
		t.Error("a revision of another namespace counts as the newest")
	}
	if got := c.lostWishes(h); len(got) > 0 {
		t.Errorf("a revision of another namespace sets annotations of the workload: %v", got)
	}
}

package rollout

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// neighbours is how long a rollout may take that waits for nobody: seconds on an idle machine. What the noisy namespace of these
// tests asks for takes minutes there.
const neighbours = 30 * time.Second

// crowded is how many workloads, and how many revisions, a noisy namespace has.
const crowded = 300

// hostile are attributes of as many bytes as are read, which take long to be read.
func hostile() map[string]string {
	return map[string]string{"sources": "[" + strings.Repeat("{},", 64<<10/3-2) + "]"}
}

// hostileSpec is a pod whose only volume has hostile attributes.
func hostileSpec() corev1.PodSpec {
	csi := &corev1.CSIVolumeSource{Driver: "csi.liveconfig.internal", VolumeAttributes: hostile()}
	return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{CSI: csi}}}}
}

// noise are the objects of a namespace whose owner wants the controller to have no time for others.
func noise() []runtime.Object {
	var objects []runtime.Object
	for i := range crowded {
		d := triggeredDeployment("noisy", fmt.Sprintf("d-%d", i))
		d.Spec.Template.Spec = hostileSpec()
		config := trigger.Config{}
		for j := range 50 {
			config[api.Ref{Kind: "ConfigMap", Name: fmt.Sprintf("x-%d-%d", i, j)}] = fmt.Sprintf("x-%d-%d-0123456789", i, j)
		}
		set := replicaSetOf(d.UID, "noisy", fmt.Sprintf("r-%d", i), "1", config.String())
		set.Spec.Template.Spec = hostileSpec()
		objects = append(objects, d, set)
	}
	return objects
}

func triggeredDeployment(namespace, name string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), ResourceVersion: "1",
		Annotations: map[string]string{trigger.TriggeredBy: "configmap/foo"},
	}}
	ref := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "foo"}}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "foo", VolumeSource: corev1.VolumeSource{ConfigMap: ref}}}
	return d
}

func fooOf(namespace, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foo"}, Data: map[string]string{"config": value}}
}

// server plays the API server for a controller, and counts what that asks.
type server struct {
	client   *fake.Clientset
	metadata *metadatafake.FakeMetadataClient
	gets     sync.Map // How many requests there were for single objects, by namespace: *atomic.Int64.
	// patched has the namespace and name of each workload that was patched.
	patched chan string
}

func newServer(t *testing.T, objects ...runtime.Object) *server {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &server{
		client: fake.NewClientset(objects...), metadata: metadatafake.NewSimpleMetadataClient(scheme),
		patched: make(chan string, 10_000),
	}
	s.metadata.PrependReactor("get", "*", s.count)
	s.client.PrependReactor("get", "*", s.count)
	s.client.PrependReactor("patch", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if patch, ok := a.(clienttesting.PatchAction); ok {
			s.patched <- patch.GetNamespace() + "/" + patch.GetName()
		}
		return false, nil, nil
	})
	return s
}

func (s *server) count(a clienttesting.Action) (bool, runtime.Object, error) {
	n, _ := s.gets.LoadOrStore(a.GetNamespace(), new(atomic.Int64))
	if n, ok := n.(*atomic.Int64); ok {
		n.Add(1)
	}
	return false, nil, nil
}

func (s *server) got(namespace string) int64 {
	n, found := s.gets.Load(namespace)
	if counter, ok := n.(*atomic.Int64); found && ok {
		return counter.Load()
	}
	return 0
}

// run starts a controller, which ends with the test.
func (s *server) run(t *testing.T, perSecond float64, changes ...func(*Config)) {
	t.Helper()
	cfg := Config{
		Client: s.client, Metadata: s.metadata, DriverName: "csi.liveconfig.internal", Secrets: true, Rate: perSecond,
		HoldFailing: true, ProgressDeadline: time.Minute, Events: &record.FakeRecorder{}, Metrics: NewMetrics(prometheus.NewRegistry()),
	}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// await waits until a workload is patched, and fails the test if others keep it waiting. It returns how many others were patched.
func (s *server) await(t *testing.T, workload string) int {
	t.Helper()
	others, late := 0, time.After(neighbours)
	for {
		select {
		case name := <-s.patched:
			if name == workload {
				return others
			}
			others++
		case <-late:
			t.Fatalf("%s was not rolled out within %s, and %d others were", workload, neighbours, others)
		}
	}
}

// TestHostileNamespaceDelaysNoOther: a namespace is full of workloads and revisions that take long to be read and name copies
// that are not there. Workloads of another namespace are rolled out in the meantime, when the controller starts and when their
// sources are edited, and requests for the hostile namespace stay few.
//
// Fault 42.
func TestHostileNamespaceDelaysNoOther(t *testing.T) {
	t.Parallel()
	objects := append(noise(), fooOf("noisy", "one"), fooOf("quiet", "one"), triggeredDeployment("quiet", "web"))
	s := newServer(t, objects...)
	began := time.Now()
	s.run(t, 10)
	s.await(t, "quiet/web")
	t.Logf("the workload of the other namespace was rolled out after %s", time.Since(began).Round(time.Millisecond))

	edited := time.Now()
	if _, err := s.client.CoreV1().ConfigMaps("quiet").Update(t.Context(), fooOf("quiet", "two"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await(t, "quiet/web")
	t.Logf("its edit was rolled out after %s", time.Since(edited).Round(time.Millisecond))

	few := int64(requestBurst + requestRate*time.Since(began).Seconds() + 1)
	if got := s.got("noisy"); got > 3*few { // A unit of the allowance is up to three requests.
		t.Errorf("the controller asked %d times about the hostile namespace, want at most %d", got, 3*few)
	}
}

// TestBusyNamespaceDelaysNoOther: rollouts are limited over all namespaces. Many that wait in one of them delay no other's.
//
// Fault 42.
func TestBusyNamespaceDelaysNoOther(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{fooOf("noisy", "one"), fooOf("quiet", "one"), triggeredDeployment("quiet", "web")}
	for i := range crowded {
		objects = append(objects, triggeredDeployment("noisy", fmt.Sprintf("d-%d", i)))
	}
	s := newServer(t, objects...)
	s.run(t, 2)
	if others := s.await(t, "quiet/web"); others > 10 {
		t.Errorf("%d workloads of another namespace were rolled out before, want a few", others)
	}
}

package nodetaint_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/liveconfig-csi/liveconfig/pkg/nodetaint"
)

const driverName = "csi.liveconfig.internal"

// readyNode returns the objects of a node whose driver is ready, and that still has our taint, with two effects.
func readyNode(name string) []runtime.Object {
	var node corev1.Node
	node.Name, node.ResourceVersion = name, "1"
	node.Spec.Taints = []corev1.Taint{
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
		{Key: nodetaint.Key, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: nodetaint.Key, Effect: corev1.TaintEffectNoSchedule},
		{Key: "example.org/last", Value: "yes", Effect: corev1.TaintEffectNoExecute},
	}
	return []runtime.Object{
		&node,
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName}}}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liveconfig-system", Name: name, Labels: map[string]string{"app": "driver"}},
			Spec:       corev1.PodSpec{NodeName: name},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		},
	}
}

// fixture is a Remover that runs in a bubble of synctest.
type fixture struct {
	t      *testing.T
	client *fake.Clientset
	log    lockedBuffer
	// onPatch is called before each patch of a node; nil for one that succeeds.
	onPatch func(node string) error
	mu      sync.Mutex // Guards patches, which counts the patches of each node.
	patches map[string]int
}

// tries returns how often the taint of a node was tried to remove.
func (f *fixture) tries(node string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.patches[node]
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func run(t *testing.T, onPatch func(node string) error, test func(f *fixture), nodes ...string) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, onPatch: onPatch, patches: map[string]int{}}
		var objects []runtime.Object
		for _, node := range nodes {
			objects = append(objects, readyNode(node)...)
		}
		f.client = fake.NewClientset(objects...)
		f.client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			patch, _ := a.(clienttesting.PatchAction)
			f.mu.Lock()
			f.patches[patch.GetName()]++
			f.mu.Unlock()
			err := f.onPatch(patch.GetName())
			return err != nil, nil, err
		})
		r, err := nodetaint.New(nodetaint.Config{
			Client: f.client, DriverName: driverName, Namespace: "liveconfig-system", Selector: "app=driver", Registry: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&f.log)))
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		f.after(time.Second)
		test(f)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// after waits, and lets everything happen that happens meanwhile.
func (f *fixture) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (f *fixture) wantTaints(node string, want ...string) {
	f.t.Helper()
	n, err := f.client.CoreV1().Nodes().Get(f.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for _, taint := range n.Spec.Taints {
		got = append(got, fmt.Sprint(taint.Key, ":", taint.Effect))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("taints of %s (-want +got):\n%s", node, diff)
	}
}

// others are the taints of a node without ours.
var others = []string{"node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute", "example.org/last:NoExecute"}

// TestOnlyOurTaintIsRemoved, with all its effects, and the others keep their order.
func TestOnlyOurTaintIsRemoved(t *testing.T) {
	run(t, func(string) error { return nil }, func(f *fixture) { f.wantTaints("a", others...) }, "a")
}

// TestARefusalIsReported: an admission policy refuses with the status of an invalid request. That is no sign of a cache that is
// behind: it is logged, and tried again later each time.
func TestARefusalIsReported(t *testing.T) {
	refused := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "a", nil)
	refused.ErrStatus.Message = "denied by a policy"
	run(t, func(string) error { return refused }, func(f *fixture) {
		f.after(time.Minute)
		if got := f.tries("a"); got < 5 || got > 20 {
			f.t.Errorf("the taint was tried to remove %d times within a minute, want 5 to 20", got)
		}
		if got := f.log.count("denied by a policy"); got != f.tries("a") {
			f.t.Errorf("%d lines of the log report the refusal, want one for each of %d tries", got, f.tries("a"))
		}
	}, "a")
}

// TestAConflictIsNotReported: somebody else changed the node, and the cache will show that.
func TestAConflictIsNotReported(t *testing.T) {
	conflicts := 3
	run(t, func(string) error {
		if conflicts--; conflicts >= 0 {
			return apierrors.NewConflict(corev1.Resource("nodes"), "a", nil)
		}
		return nil
	}, func(f *fixture) {
		f.after(time.Minute)
		f.wantTaints("a", others...)
		if got := f.log.count("Will try again"); got != 0 {
			f.t.Errorf("%d lines of the log report a conflict, want none", got)
		}
	}, "a")
}

// TestAPanicEndsNothing: the other nodes lose their taints, and the node is tried again, later each time, with a line of the log.
//
// Fault 49.
func TestAPanicEndsNothing(t *testing.T) {
	var isHealed atomic.Bool
	run(t, func(node string) error {
		if !isHealed.Load() && node == "b" {
			panic("poisoned")
		}
		return nil
	}, func(f *fixture) {
		f.after(time.Minute)
		for _, node := range []string{"a", "c"} {
			f.wantTaints(node, others...)
		}
		tries := f.tries("b")
		if lines := f.log.count("panic: poisoned"); tries < 5 || tries > 20 || lines != tries {
			f.t.Errorf("the node was tried %d times within a minute, with %d lines of the log, want 5 to 20 of both", tries, lines)
		}
		isHealed.Store(true)
		f.after(time.Minute)
		f.wantTaints("b", others...)
	}, "a", "b", "c")
}

// TestTheVersionIsInThePatch: a node that has changed since it was cached is not written.
func TestTheVersionIsInThePatch(t *testing.T) {
	run(t, func(string) error { return nil }, func(f *fixture) {
		found := slices.ContainsFunc(f.client.Actions(), func(a clienttesting.Action) bool {
			patch, ok := a.(clienttesting.PatchAction)
			return ok && strings.Contains(string(patch.GetPatch()), `"resourceVersion":"1"`)
		})
		if !found {
			f.t.Error("no patch names the version of the node")
		}
	}, "a")
}

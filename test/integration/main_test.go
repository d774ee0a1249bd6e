// Package integration tests the driver from outside: a real process, a real API server, real mounts.
package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/kubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// soon is how long something may take that takes milliseconds when nothing else runs on the machine.
const soon = 20 * time.Second

// bench is one test's corner of the lab: a namespace and a node.
type bench struct {
	t         testing.TB
	cluster   *cluster.Cluster
	namespace string
	node      *node.Node
	http      string // Where the driver serves metrics and health.
}

func newBench(t testing.TB, args ...string) *bench {
	t.Helper()
	b := newCorner(t)
	b.node = lab.Node(t, append(args, "--http-endpoint="+b.http)...)
	return b
}

// newCorner returns a bench without a node.
func newCorner(t testing.TB) *bench {
	t.Helper()
	b := &bench{t: t, cluster: lab.Cluster(t), namespace: "test-" + string(uuid.NewUUID()[:8]), http: freeAddress(t)}
	if err := b.cluster.CreateNamespace(t.Context(), b.namespace); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) configMaps() corev1client.ConfigMapInterface {
	return b.cluster.Client().CoreV1().ConfigMaps(b.namespace)
}

func (b *bench) createConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	b.t.Helper()
	cm, err := b.configMaps().Create(b.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return cm
}

// updateConfigMap replaces the data and returns when the API server has answered.
func (b *bench) updateConfigMap(name string, data map[string]string) {
	b.t.Helper()
	_, err := b.configMaps().Update(b.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.UpdateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) deleteConfigMap(name string) {
	b.t.Helper()
	if err := b.configMaps().Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// pod returns a pod of the bench's namespace with one volume of the driver. It is not created at the API server: what
// the driver knows of a pod it has from the kubelet.
func (b *bench) pod(name string, attributes map[string]string) *corev1.Pod {
	readOnly := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, UID: uuid.NewUUID()},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
			Name: "config",
			VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
				Driver: node.DriverName, ReadOnly: &readOnly, VolumeAttributes: attributes,
			}},
		}}},
	}
}

// publish publishes the pod's volumes, and takes them away when the test ends.
func (b *bench) publish(pod *corev1.Pod) {
	b.t.Helper()
	if err := b.node.PublishAll(b.t.Context(), pod); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { b.unpublish(pod) })
}

func (b *bench) unpublish(pod *corev1.Pod) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), soon)
	defer cancel()
	if err := b.node.UnpublishAll(ctx, pod); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("unpublish: %v", err)
	}
}

// path returns where a file of the pod's volume is.
func (b *bench) path(pod *corev1.Pod, file string) string {
	return filepath.Join(b.node.Target(pod, "config"), file)
}

// wantFile waits until a file of the pod's volume holds the text.
func (b *bench) wantFile(pod *corev1.Pod, file, want string) {
	b.t.Helper()
	lab.Eventually(b.t, soon, func() error {
		got, err := os.ReadFile(b.path(pod, file))
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s holds %q, want %q", file, got, want)
		}
		return nil
	})
}

// wantNoFile waits until the pod's volume has no such name.
func (b *bench) wantNoFile(pod *corev1.Pod, file string) {
	b.t.Helper()
	lab.Eventually(b.t, soon, func() error { return kubelet.Gone(b.path(pod, file)) })
}

// generation returns which directory ..data names: it changes with each write.
func (b *bench) generation(pod *corev1.Pod) string {
	b.t.Helper()
	link, err := os.Readlink(b.path(pod, "..data"))
	if err != nil {
		b.t.Fatal(err)
	}
	return link
}

// wantEvent waits for an Event with the reason on the pod whose message holds the text.
func (b *bench) wantEvent(pod *corev1.Pod, reason, text string) {
	b.t.Helper()
	lab.Eventually(b.t, soon, func() error {
		events, err := b.cluster.Client().CoreV1().Events(b.namespace).List(b.t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID) + ",reason=" + reason})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no Event %s with %q among %d", reason, text, len(events.Items))
	})
}

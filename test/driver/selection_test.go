package driver

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// dashboards are the labels that the selections of these tests look for.
func dashboards() map[string]string { return map[string]string{"dashboard": "1"} }

// selecting are the attributes of a volume that selects objects of a kind by that label.
func selecting(kind, fields string) map[string]string {
	return map[string]string{"sources": "[{" + kind + ": {labelSelector: {matchLabels: {dashboard: '1'}}" + fields + "}}]"}
}

// label makes a ConfigMap of one key with labels, or changes it.
func (b *rig) label(namespace, name, key, value string, labels map[string]string) {
	b.T.Helper()
	expect.NoError(b.T, fixture.Put(b.T.Context(), b.Cluster.Client().CoreV1().ConfigMaps(namespace), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: fixture.Marked(map[string]string{key: value}),
	}))
}

func newSelectionRig(t *testing.T) *rig {
	t.Helper()
	return &rig{fixture.New(t, "--recheck-interval=2s")}
}

// TestObjectsByLabel appear, change, lose the label and are deleted, each in one update; the driver and the API server may end.
func TestObjectsByLabel(t *testing.T) {
	t.Parallel()
	b := newSelectionRig(t)
	b.label(b.Namespace, "a", "a.json", "1", dashboards())
	b.label(b.Namespace, "other", "other.json", "1", nil)
	pod := b.Pod("web", selecting("configMap", ""))
	b.Publish(pod)
	b.WantFile(pod, "a.json", "1")
	b.WantNoFile(pod, "other.json")
	b.label(b.Namespace, "b", "b.json", "1", dashboards())
	b.WantFile(pod, "b.json", "1")
	b.label(b.Namespace, "b", "b.json", "2", dashboards())
	b.WantFile(pod, "b.json", "2")
	b.label(b.Namespace, "b", "b.json", "3", nil)
	b.WantNoFile(pod, "b.json")
	b.Kill()
	b.label(b.Namespace, "c", "c.json", "1", dashboards())
	b.Start()
	b.WantFile(pod, "c.json", "1")
	b.DeleteConfigMap("c")
	b.WantNoFile(pod, "c.json")
	b.WantFile(pod, "a.json", "1")
	b.DeleteConfigMap("a")
	b.WantEvent(pod, "SourceMissing", "no configmap matches labelSelector dashboard=1")
	b.WantFile(pod, "a.json", "1")
	b.WantRefusal(b.Pod("late", selecting("configMap", "")), codes.FailedPrecondition, "no configmap matches labelSelector")
}

// TestSelectionsFollowOnDelete: with Remove, the last files go with their object.
func TestSelectionsFollowOnDelete(t *testing.T) {
	t.Parallel()
	b := newSelectionRig(t)
	b.label(b.Namespace, "a", "a.json", "1", dashboards())
	attributes := selecting("configMap", "")
	attributes["onDelete"] = "Remove"
	pod := b.Pod("web", attributes)
	b.Publish(pod)
	b.DeleteConfigMap("a")
	b.WantNoFile(pod, "a.json")
}

// TestSelectedPathsCollide: the older object has the path, and the files of others stay.
func TestSelectedPathsCollide(t *testing.T) {
	t.Parallel()
	b := newSelectionRig(t)
	b.label(b.Namespace, "a", "x", "old", dashboards())
	pod := b.Pod("web", selecting("configMap", ", folderAnnotation: folder"))
	b.Publish(pod)
	b.label(b.Namespace, "b", "x", "new", dashboards())
	b.WantEvent(pod, "PathTaken", fmt.Sprintf("key x of configmap %s/b at path x, which configmap %[1]s/a has", b.Namespace))
	b.WantFile(pod, "x", "old")
	_, err := b.ConfigMaps().Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: dashboards(), Annotations: map[string]string{"folder": "../evil"}},
		Data:       fixture.Marked(map[string]string{"y": "evil"}),
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	b.WantEvent(pod, "PathTaken", `must not contain the element ".."`)
	b.WantFile(pod, "x", "old")
	b.DeleteConfigMap("a")
	b.WantFile(pod, "x", "new")
}

// TestSelectionsInOtherNamespaces need the rights of the pod's account in each; one that is denied keeps its files, and the others
// go on, also if the driver is killed.
func TestSelectionsInOtherNamespaces(t *testing.T) {
	t.Parallel()
	b := newSelectionRig(t)
	other := b.otherNamespace()
	b.label(b.Namespace, "a", "a", "1", dashboards())
	b.label(other, "b", "b", "1", dashboards())
	pod := b.Pod("web", selecting("configMap", fmt.Sprintf(", namespaces: [%s, %s], path: $(namespace)/$(key)", b.Namespace, other)))
	b.apply(b.wantDenied(pod))
	b.Publish(pod)
	own, others := b.Namespace+"/", other+"/"
	b.WantFile(pod, own+"a", "1")
	b.WantFile(pod, others+"b", "1")
	expect.NoError(t, b.Cluster.Client().RbacV1().Roles(other).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	b.WantEvent(pod, "AccessLost", "list-configmaps")
	b.label(other, "b", "b", "2", dashboards())
	b.label(b.Namespace, "a", "a", "2", dashboards())
	b.WantFile(pod, own+"a", "2")
	b.WantFile(pod, others+"b", "1")
	for _, value := range []string{"3", "4"} { // The driver takes what is denied from the files.
		b.Kill()
		b.label(b.Namespace, "a", "a", value, dashboards())
		b.Start()
		b.WantFile(pod, own+"a", value)
		b.WantFile(pod, others+"b", "1")
	}
}

// TestSelectionsInAllNamespaces need a ClusterRole of the pod's account.
func TestSelectionsInAllNamespaces(t *testing.T) {
	t.Parallel()
	b := newSelectionRig(t)
	other := b.otherNamespace()
	label := map[string]string{"all": b.Namespace}
	b.label(other, "b", "b", "1", label)
	attributes := map[string]string{"sources": fmt.Sprintf(
		`[{configMap: {labelSelector: {matchLabels: {all: %s}}, namespaces: ["*"]}}]`, b.Namespace)}
	pod := b.Pod("web", attributes)
	grant := b.wantDenied(pod)
	text, err := os.ReadFile(grant)
	expect.NoError(t, err)
	if !strings.Contains(string(text), "kind: ClusterRole\n") {
		t.Errorf("the remedy is:\n%s\nwant a ClusterRole", text)
	}
	b.apply(grant)
	b.Publish(pod)
	b.WantFile(pod, "b", "1")
	b.label(b.Namespace, "a", "a", "1", label)
	b.WantFile(pod, "a", "1")
	bindings := b.Cluster.Client().RbacV1().ClusterRoleBindings()
	expect.NoError(t, bindings.Delete(t.Context(), "liveconfig-list-configmaps:"+b.Namespace+":default", metav1.DeleteOptions{}))
	b.WantEvent(pod, "AccessLost", "kind: ClusterRole")
	b.WantFile(pod, "a", "1")
}

// TestSecretsByLabel are read with the pod's token: the account needs list and watch on the kind.
func TestSecretsByLabel(t *testing.T) {
	t.Parallel()
	b := newSelectionRig(t)
	secrets := b.Cluster.Client().CoreV1().Secrets(b.Namespace)
	expect.NoError(t, fixture.Put(t.Context(), secrets, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: dashboards()}, StringData: fixture.Marked(map[string]string{"key": "1"}),
	}))
	expect.NoError(t, b.Cluster.EnsureServiceAccount(t.Context(), b.Namespace, "reader"))
	pod := b.PodOf("web", "reader", selecting("secret", ", mode: 0400"))
	b.apply(b.wantDenied(pod))
	b.Publish(pod)
	b.WantFile(pod, "key", "1")
	info, err := os.Stat(b.Path(pod, "key"))
	expect.NoError(t, err)
	if got := info.Mode().Perm(); got != 0o400 {
		t.Errorf("mode %o, want 400", got)
	}
}

// TestTooManyObjectsByLabel: the files stay, an Event has the figures, and a new volume has what the node has read before, if any.
func TestTooManyObjectsByLabel(t *testing.T) {
	t.Parallel()
	b := newSelectionRig(t)
	b.label(b.Namespace, "a", "a", "1", dashboards())
	pod := b.Pod("web", selecting("configMap", ", path: $(name)/$(key)"))
	b.Publish(pod)
	large := strings.Repeat("x", 1_000_000)
	for i := range 17 {
		b.label(b.Namespace, fmt.Sprint("large-", i), "x", large, dashboards())
	}
	b.WantEvent(pod, "TooMuchSelected", "16 MiB")
	b.WantFile(pod, "a/a", "1")
	late := b.Pod("late", selecting("configMap", ", path: $(name)/$(key)"))
	b.Publish(late)
	b.WantFile(late, "a/a", "1")
	b.WantEvent(late, "TooMuchSelected", "16 MiB")
	b.Unpublish(late)
	b.Unpublish(pod)
	var err error
	alone := b.Pod("alone", selecting("configMap", ""))
	expect.Eventually(t, time.Minute, func() error { // A slow machine reads 17 MB for longer than a publish waits.
		if err = b.TryPublish(t.Context(), alone); status.Code(err) == codes.Unavailable {
			return err
		}
		return nil
	})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "labelSelector selects too much") {
		t.Errorf("publish gave %v, want %s that names the labelSelector", err, codes.ResourceExhausted)
	}
}

// TestMoreThanAThousandObjectsByLabel: the files stay, and an Event has the figures. One object less is fine.
func TestMoreThanAThousandObjectsByLabel(t *testing.T) {
	t.Parallel()
	b := newSelectionRig(t)
	b.label(b.Namespace, "a", "a", "1", dashboards())
	pod := b.Pod("web", selecting("configMap", ", path: $(name)/$(key)"))
	b.Publish(pod)
	for i := range 1000 {
		b.label(b.Namespace, fmt.Sprint("small-", i), "x", "1", dashboards())
	}
	b.WantEvent(pod, "TooMuchSelected", "1001 objects")
	b.WantFile(pod, "a/a", "1")
	b.DeleteConfigMap("small-0")
	expect.Eventually(t, time.Minute, func() error { return b.Holds(pod, "small-999/x", "1") }) // It is listed every half minute.
	b.WantNoFile(pod, "small-0/x")
}

// TestSelectionsOverOutages: what changes meanwhile is in the files afterwards, also if the API server has forgotten the version of
// the watch.
func TestSelectionsOverOutages(t *testing.T) {
	t.Parallel()
	bench, front := behindFront(t)
	b := &rig{bench}
	b.label(b.Namespace, "a", "a", "1", dashboards())
	b.label(b.Namespace, "b", "b", "1", dashboards())
	pod := b.Pod("web", selecting("configMap", ""))
	b.Publish(pod)
	front.Set(network.Fault{Status: http.StatusGone})
	front.EndWatches(nil)
	b.label(b.Namespace, "a", "a", "2", dashboards())
	b.DeleteConfigMap("b")
	b.label(b.Namespace, "c", "c", "1", dashboards())
	b.WantFile(pod, "b", "1")
	front.Set()
	b.WantFile(pod, "a", "2")
	b.WantFile(pod, "c", "1")
	b.WantNoFile(pod, "b")
}

// TestSelectionsFromManifests are refused, and the message shows what to write.
func TestSelectionsFromManifests(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.Without(t)}
	b.WantRefusal(b.Pod("web", selecting("configMap", "")), codes.PermissionDenied, "with --manifests a source has to name its object")
}

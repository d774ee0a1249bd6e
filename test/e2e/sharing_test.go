package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// replicas is how many pods of one Deployment share their files.
const replicas = 20

// reader reads the version five hundred times a second, as the load of a pod. It ends if there is none, or
// an older one than before. It opens the file twice at most: 20 pods with the least share of a processor can wait longer between
// two steps of one open than replaced files stay. test/volume counts what readers miss.
const reader = `trap 'exit 0' TERM
last=0
while :; do
  i=0
  while [ $i -lt 500 ]; do
    now=
    read -r now < ` + mountPath + `/version || read -r now < ` + mountPath + `/version
    [ "$now" -ge "$last" ] || { echo "read '$now' after '$last'" > /dev/termination-log; exit 1; }
    last=$now i=$((i+1))
  done
  sleep 1 & wait $!
done`

// TestReplicasShareOneFileSystem starts a Deployment, whose volumes are one file system, and replaces
// all its pods while their ConfigMap changes all the time, and each pod reads it.
func TestReplicasShareOneFileSystem(t *testing.T) {
	s := on(t, realnode.Containerd2())
	namespace := s.namespace(t)
	s.putConfigMap(t, namespace, "shared", map[string]string{"version": "0"})
	pod := crowdPod(namespace, "", inline("config", map[string]string{"configMap": "shared"}))
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}
	deployment.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	deployment.Spec.Template.Spec.Containers[0].Command = []string{"sh", "-c", reader}
	api := s.Client().AppsV1().Deployments(namespace)
	if _, err := api.Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first := s.awaitReplicas(t, namespace, nil)
	s.wantOneFileSystem(t, first)

	editing := s.edit(t, namespace, "shared")
	patch := `{"spec":{"template":{"metadata":{"annotations":{"round":"2"}}}}}`
	if _, err := api.Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	second := s.awaitReplicas(t, namespace, first)
	edits := editing()
	t.Attr("sharing/edits-meanwhile", strconv.Itoa(edits))
	for _, pod := range second {
		path := filepath.Join(s.VolumeDir(pod, "config"), "version")
		expect.Eventually(t, changeTimeout, func() error {
			got, err := os.ReadFile(path)
			if err == nil && string(got) != strconv.Itoa(edits) {
				err = fmt.Errorf("the volume of %s has %q, want %d", pod.Name, got, edits)
			}
			return err
		})
	}
	s.wantOneFileSystem(t, second)
	s.wantReaders(t, namespace)
	s.wantNoFailedMounts(t, namespace)
	for _, pod := range first {
		s.wantNothingOf(t, pod)
	}
	s.wantRecords(t)
	expect.NoError(t, api.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.disperse(t, namespace, second)
	s.wantNoVolumes(t)
}

// awaitReplicas waits until all pods of the Deployment are ready and none of the earlier ones is left.
func (s *site) awaitReplicas(t *testing.T, namespace string, earlier []*corev1.Pod) (pods []*corev1.Pod) {
	t.Helper()
	expect.Eventually(t, crowdTimeout, func() error {
		list, err := s.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		pods = nil
		for i := range list.Items {
			pod := &list.Items[i]
			if slices.ContainsFunc(earlier, func(old *corev1.Pod) bool { return old.UID == pod.UID }) {
				return fmt.Errorf("pod %s of the first round is still there", pod.Name)
			}
			if ready(pod) == nil {
				pods = append(pods, pod)
			}
		}
		if len(pods) != replicas {
			return fmt.Errorf("%d of %d pods are ready", len(pods), replicas)
		}
		return nil
	})
	return pods
}

// wantOneFileSystem compares the device numbers of the pods' volumes, and looks for one mount in each.
func (s *site) wantOneFileSystem(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	devices := map[uint64][]string{}
	for _, pod := range pods {
		s.wantOneMount(t, pod)
		var st syscall.Stat_t
		expect.NoError(t, syscall.Stat(s.VolumeDir(pod, "config"), &st))
		devices[st.Dev] = append(devices[st.Dev], pod.Name)
	}
	if len(devices) != 1 {
		t.Errorf("the volumes of %d pods are %d file systems, want one: %v", len(pods), len(devices), devices)
	}
	inContainer := strings.TrimSpace(s.exec(t, pods[0], "cat", mountPath+"/version"))
	if _, err := strconv.Atoi(inContainer); err != nil {
		t.Errorf("a container reads %q, want a version", inContainer)
	}
}

// wantReaders checks that no container of the Deployment has ended.
func (s *site) wantReaders(t *testing.T, namespace string) {
	t.Helper()
	list, err := s.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	expect.NoError(t, err)
	for _, pod := range list.Items {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				t.Errorf("the reader of %s has ended: %+v", pod.Name, c.LastTerminationState.Terminated)
			}
		}
	}
}

// edit changes a ConfigMap ten times a second until the returned function is called, which returns the
// last version.
func (s *site) edit(t *testing.T, namespace, name string) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	last := make(chan int, 1)
	go func() {
		version := 0
		defer func() { last <- version }()
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			patch := fmt.Sprintf(`{"data":{"version":"%d"}}`, version+1)
			// An edit that has begun ends, so that the last version is known.
			_, err := s.Client().CoreV1().ConfigMaps(namespace).Patch(context.WithoutCancel(ctx), name,
				types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if err != nil {
				t.Errorf("edit the ConfigMap: %v", err)
				return
			}
			version++
		}
	}()
	return func() int {
		cancel()
		return <-last
	}
}

// wantNoFailedMounts looks for Events of volumes that could not be mounted.
func (s *site) wantNoFailedMounts(t *testing.T, namespace string) {
	t.Helper()
	events, err := s.Client().CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedMount"})
	expect.NoError(t, err)
	for _, e := range events.Items {
		t.Errorf("%s of %s: %s", e.Reason, e.InvolvedObject.Name, e.Message)
	}
}

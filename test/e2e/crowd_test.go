package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

const (
	// crowdSize is how many pods a node has at most by default.
	crowdSize = 110
	// lookedInto is how many of them are looked into by exec.
	lookedInto = 5
	// crowdTimeout is how long a busy machine may take to start all of them, or to end them.
	crowdTimeout = 5 * time.Minute
	// creators is how many requests for pods go on at once.
	creators = 8
)

// TestCrowd fills a node with pods that have a volume each: the driver's, and then the kubelet's own. It measures how long
// all take to be ready, and how long an edit takes to reach the last.
func TestCrowd(t *testing.T) {
	s := on(t, realnode.Containerd2())
	namespace := s.namespace(t)
	s.putConfigMap(t, namespace, "shared", map[string]string{"version": "1"})
	ours := func(name string) *corev1.Pod {
		return crowdPod(namespace, name, inline("config", map[string]string{"configMap": "shared"}))
	}
	inTree := func(name string) *corev1.Pod { return crowdPod(namespace, name, inTreeMap("config", "shared")) }
	// Neither must be the first that a new node starts.
	s.disperse(t, namespace, []*corev1.Pod{s.start(t, ours("first")), s.start(t, inTree("second"))})

	pods := s.crowd(t, namespace, "crowd/liveconfig-all-ready", ours)
	for _, pod := range pods {
		s.wantOneMount(t, pod)
	}
	s.wantRecords(t)
	s.editCrowd(t, namespace, pods)
	s.disperse(t, namespace, pods)
	s.wantNoVolumes(t)

	s.disperse(t, namespace, s.crowd(t, namespace, "crowd/in-tree-all-ready", inTree))
}

// crowdPod is [boxPod] with any volume, and without a separate network, which would only take time.
func crowdPod(namespace, name string, volume corev1.Volume) *corev1.Pod {
	pod := boxPod(namespace, name, nil)
	pod.Spec.Volumes = []corev1.Volume{volume}
	pod.Spec.HostNetwork = true
	return pod
}

// crowd starts pods, counts how long it took until all of them were ready, and returns them as they are then.
func (s *site) crowd(t *testing.T, namespace, key string, pod func(name string) *corev1.Pod) []*corev1.Pod {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(creators)
	begin := time.Now()
	for i := range crowdSize {
		group.Go(func() error {
			one := pod(fmt.Sprintf("crowd-%d", i))
			_, err := s.Client().CoreV1().Pods(namespace).Create(t.Context(), one, metav1.CreateOptions{})
			return err
		})
	}
	expect.NoError(t, group.Wait())
	pods := map[string]*corev1.Pod{}
	s.awaitPods(t, crowdTimeout, namespace, func(_ watch.EventType, pod *corev1.Pod) error {
		if ready(pod) == nil {
			pods[pod.Name] = pod
		}
		if len(pods) == crowdSize {
			return nil
		}
		return fmt.Errorf("%d of %d pods are ready", len(pods), crowdSize)
	})
	note(t, key, rounded(time.Since(begin)))
	return slices.Collect(maps.Values(pods))
}

// editCrowd makes one edit and counts how long it took until the last pod's files had it.
func (s *site) editCrowd(t *testing.T, namespace string, pods []*corev1.Pod) {
	t.Helper()
	begin := time.Now()
	s.putConfigMap(t, namespace, "shared", map[string]string{"version": "2"})
	for _, pod := range pods {
		path := filepath.Join(s.VolumeDir(pod, "config"), "version")
		expect.Eventually(t, changeTimeout, func() error {
			got, err := os.ReadFile(path)
			if err == nil && string(got) != "2" {
				err = fmt.Errorf("the volume of %s has %q, want the edit", pod.Name, got)
			}
			return err
		})
	}
	note(t, "crowd/edit-in-all-volumes", rounded(time.Since(begin)))
	for _, pod := range pods[:lookedInto] {
		if got := s.exec(t, pod, "cat", mountPath+"/version"); got != "2" {
			t.Errorf("pod %s reads %q, want the edit", pod.Name, got)
		}
	}
}

// disperse deletes pods, waits until they are gone and looks for what they have left.
func (s *site) disperse(t *testing.T, namespace string, pods []*corev1.Pod) {
	t.Helper()
	api, now := s.Client().CoreV1().Pods(namespace), metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}
	expect.NoError(t, api.DeleteCollection(t.Context(), now, metav1.ListOptions{}))
	expect.Eventually(t, crowdTimeout, func() error {
		left, err := api.List(t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d pods are still there", len(left.Items))
		}
		return err
	})
	for _, pod := range pods {
		s.wantNothingOf(t, pod)
	}
}

// wantNoVolumes looks that the driver has no volume left, neither mounted nor on record.
func (s *site) wantNoVolumes(t *testing.T) {
	t.Helper()
	mounts, err := s.Mounts("/volumes/kubernetes.io~csi/")
	if err != nil || len(mounts) > 0 {
		t.Errorf("volumes are still mounted: %q, %v", mounts, err)
	}
	s.wantRecords(t)
}

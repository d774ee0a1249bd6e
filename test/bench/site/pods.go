package site

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

const (
	// podsTimeout is how long a busy machine may take to start a node full of pods.
	podsTimeout = "--timeout=10m"
	// creators is how many requests to create something go on at once.
	creators = 8
)

// CreateConfigMaps makes ConfigMaps with the one key payload.
func (s *Site) CreateConfigMaps(ctx context.Context, namespace, payload string, names ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, name := range names {
		group.Go(func() error {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"payload": payload}}
			_, err := s.Client().CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// Edit edits a ConfigMap of [Site.CreateConfigMaps] so often, at intervals. Its payload gets another head each time.
func (s *Site) Edit(ctx context.Context, namespace, name string, size, times int, interval time.Duration) error {
	for range times {
		s.edits++
		head := strconv.Itoa(s.edits)
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"payload": head + strings.Repeat("x", size-len(head))},
		}
		if _, err := s.Client().CoreV1().ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if err := Rest(ctx, interval); err != nil {
			return err
		}
	}
	return nil
}

// StartPods makes pods of one namespace and returns them when all are running.
func (s *Site) StartPods(ctx context.Context, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, pod := range pods {
		group.Go(func() error {
			_, err := s.Client().CoreV1().Pods(pod.Namespace).Create(groupCtx, pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil || len(pods) == 0 {
		return nil, err
	}
	if _, err := s.Kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Running", podsTimeout, "--namespace="+pods[0].Namespace, "pods", "--all"); err != nil {
		return nil, err
	}
	running := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		var err error
		if running[i], err = s.Client().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	return running, nil
}

// DropPods deletes all pods of a namespace and returns when they are gone.
func (s *Site) DropPods(ctx context.Context, namespace string) error {
	_, err := s.Kubectl(ctx, "delete", podsTimeout, "--namespace="+namespace, "pods", "--all")
	return err
}

// Volumes of [Pod].
const (
	ours   = "config"
	inTree = "in-tree"
)

// Pod is a pod that does nothing, and has no network of its own, with a volume of the driver's of a ConfigMap.
func Pod(namespace, name, configMap string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			HostNetwork:                   true,
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "main", Image: realnode.PauseImage,
				VolumeMounts: []corev1.VolumeMount{{Name: ours, MountPath: "/" + ours}},
			}},
			Volumes: []corev1.Volume{node.Volume(ours, map[string]string{"configMap": configMap})},
		},
	}
}

// PodWithBoth is [Pod] with the kubelet's own volume of the ConfigMap as well.
func PodWithBoth(namespace, name, configMap string) *corev1.Pod {
	pod := Pod(namespace, name, configMap)
	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: inTree, VolumeSource: corev1.VolumeSource{ConfigMap: source}})
	main := &pod.Spec.Containers[0]
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: inTree, MountPath: "/" + inTree})
	return pod
}

// OursDir is where the node has the driver's volume of a pod.
func (s *Site) OursDir(pod *corev1.Pod) string { return s.VolumeDir(pod, ours) }

// InTreeDir is where the node has the kubelet's own volume of a pod.
func (s *Site) InTreeDir(pod *corev1.Pod) string {
	return filepath.Join(s.Root(), "var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~configmap", inTree)
}

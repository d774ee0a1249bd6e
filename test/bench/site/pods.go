package site

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

const (
	// podsTimeout is how long a busy machine may take to start a node full of pods.
	podsTimeout = 10 * time.Minute
	// lookInterval spares the API server.
	lookInterval = 250 * time.Millisecond
	// creators is how many requests to create something go on at once.
	creators = 8
)

// Namespace makes a namespace in which pods can be started.
func (s *Site) Namespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	return await(ctx, func() error {
		_, err := s.Client().CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

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

func await(ctx context.Context, check func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, lookInterval, podsTimeout, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// StartPods makes pods and returns them when all are running.
func (s *Site) StartPods(ctx context.Context, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, pod := range pods {
		group.Go(func() error {
			_, err := s.Client().CoreV1().Pods(pod.Namespace).Create(groupCtx, pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	running := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		err := await(ctx, func() (err error) {
			running[i], err = s.Client().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if err == nil && running[i].Status.Phase != corev1.PodRunning {
				err = fmt.Errorf("pod %s is %s", pod.Name, running[i].Status.Phase)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return running, nil
}

// DropPods deletes all pods of a namespace and returns when they are gone.
func (s *Site) DropPods(ctx context.Context, namespace string) error {
	pods := s.Client().CoreV1().Pods(namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return await(ctx, func() error {
		left, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d pods are still there", len(left.Items))
		}
		return err
	})
}

// Volumes of [Pod].
const (
	ours   = "config"
	inTree = "in-tree"
)

// Pod is a pod that does nothing, and has no network of its own, with a volume of the driver's of a ConfigMap.
func Pod(namespace, name, configMap string) *corev1.Pod {
	source := &corev1.CSIVolumeSource{
		Driver: "csi.liveconfig.internal", ReadOnly: new(true), VolumeAttributes: map[string]string{"configMap": configMap},
	}
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
			Volumes: []corev1.Volume{{Name: ours, VolumeSource: corev1.VolumeSource{CSI: source}}},
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

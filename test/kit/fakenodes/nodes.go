package fakenodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

// heartbeat is how often nodes say that they live, as a kubelet does. The controller manager waits for several.
const heartbeat = 10 * time.Second

func (s *Nodes) nodes() []string {
	names := make([]string, s.cfg.Nodes)
	for i := range names {
		names[i] = "stage-" + strconv.Itoa(i)
	}
	return names
}

func (s *Nodes) has(node string) bool { return slices.Contains(s.nodes(), node) }

// nodeFor returns the node that a pod names, as those of a DaemonSet do, or the first.
func (s *Nodes) nodeFor(pod *corev1.Pod) string {
	first := s.nodes()[0]
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil {
		return first
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return first
	}
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return first
}

// makeNodes makes the nodes, or takes over those of an earlier stage.
func (s *Nodes) makeNodes(ctx context.Context) error {
	for _, name := range s.nodes() {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		_, err := s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make node %s: %w", name, err)
		}
		if err := s.setReady(ctx, name); err != nil {
			return fmt.Errorf("make node %s ready: %w", name, err)
		}
	}
	return nil
}

func (s *Nodes) setReady(ctx context.Context, name string) error {
	now := metav1.Now()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1k"), corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods: resource.MustParse("10k"),
	}
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Played", Message: "nothing runs here",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"capacity": room, "allocatable": room, "conditions": []corev1.NodeCondition{ready},
	}})
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().Nodes().PatchStatus(ctx, name, patch)
	return err
}

// keepAlive renews a node's lease until the context ends, as a kubelet does.
func (s *Nodes) keepAlive(ctx context.Context, node string) {
	const lasts = 40 // Seconds.
	lease.NewController(clock.RealClock{}, s.client, node, lasts, nil, heartbeat, node, corev1.NamespaceNodeLease, nil).Run(ctx)
}

package workload_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// TestBlocking: a pod is named only where its deletion lets the rollout go on.
func TestBlocking(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	tests := map[string]struct {
		set  func(*appsv1.StatefulSet)
		pod  func(*corev1.Pod)
		want []string
	}{
		"a broken pod of another revision": {want: []string{"db-2"}},
		"the policy and the strategy are the defaults": {set: func(s *appsv1.StatefulSet) {
			s.Spec.PodManagementPolicy, s.Spec.UpdateStrategy = "", appsv1.StatefulSetUpdateStrategy{}
		}, want: []string{"db-2"}},
		"more may be unavailable, and Kubernetes still waits": {set: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromInt32(2))}
		}, want: []string{"db-2"}},
		"Parallel: Kubernetes replaces it": {set: func(s *appsv1.StatefulSet) {
			s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		}},
		"OnDelete: nothing waits for it": {set: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		}},
		"Recreate: Kubernetes replaces it": {set: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.Type = appsv1.RecreateStatefulSetStrategyType
		}},
		"it is of the target": {pod: func(p *corev1.Pod) { p.Labels[appsv1.ControllerRevisionHashLabelKey] = "db-old" }},
		"it has no revision":  {pod: func(p *corev1.Pod) { p.Labels = nil }},
		"it is ready": {pod: func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}},
		"it is unready since a moment": {pod: func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = ago(workload.UnreadyTime - time.Second)
		}},
		"it was made a moment ago":  {pod: func(p *corev1.Pod) { p.CreationTimestamp = ago(time.Second) }},
		"no kubelet has seen it":    {pod: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: []string{"db-2"}},
		"it is about to go":         {pod: func(p *corev1.Pod) { p.DeletionTimestamp = new(ago(time.Hour)) }},
		"it has ended":              {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"it is of another workload": {pod: func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }},
		"the partition protects it": {set: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(3))}
		}},
		"the partition counts from the first ordinal": {set: func(s *appsv1.StatefulSet) {
			s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
		}},
		"the partition ends below it": {set: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
		}, want: []string{"db-2"}},
		"all others are ready": {set: func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 3 }},
		"it is too many":       {set: func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(2)) }},
		"Kubernetes has not seen the template": {set: func(s *appsv1.StatefulSet) {
			s.Generation = 2
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "db", Generation: 1},
				Spec: appsv1.StatefulSetSpec{
					Replicas: new(int32(3)), PodManagementPolicy: appsv1.OrderedReadyPodManagement,
					UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
				},
				Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, UpdateRevision: "db-old", UpdatedReplicas: 2, ReadyReplicas: 2},
			}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "db-2", Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "db-bad"}, CreationTimestamp: ago(time.Hour),
					OwnerReferences: []metav1.OwnerReference{{UID: "db", Controller: new(true)}},
				},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(workload.UnreadyTime)},
				}},
			}
			if tt.set != nil {
				tt.set(set)
			}
			if tt.pod != nil {
				tt.pod(pod)
			}
			w := workload.OfStatefulSet(set)
			var got []string
			if w.MayBlock() {
				got = w.Blocking(w.Ordered.Target, []*corev1.Pod{pod}, now)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("blocking pods (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBlockingNamesAFew bounds what is printed of many.
func TestBlockingNamesAFew(t *testing.T) {
	t.Parallel()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(9))}}
	var pods []*corev1.Pod
	for _, name := range []string{"db-8", "db-3", "db-1", "db-5", "db-6", "db-2", "db-7"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "db-bad"},
			OwnerReferences: []metav1.OwnerReference{{UID: "db", Controller: new(true)}},
		}})
	}
	got := workload.OfStatefulSet(set).Blocking("db-old", pods, time.Now())
	if diff := cmp.Diff([]string{"db-1", "db-2", "db-3", "db-5", "db-6"}, got); diff != "" {
		t.Errorf("blocking pods (-want +got):\n%s", diff)
	}
}

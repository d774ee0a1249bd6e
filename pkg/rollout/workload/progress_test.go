package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

func counts(updated, ready, available int32) workload.Counts {
	return workload.Counts{Updated: updated, Ready: ready, Available: available}
}

// progressing is the condition of a Deployment that has this status and reason.
func progressing(status corev1.ConditionStatus, reason string) []appsv1.DeploymentCondition {
	return []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable"},
		{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason},
	}
}

func TestProgressOfADeployment(t *testing.T) {
	t.Parallel()
	type status = appsv1.DeploymentStatus
	tests := map[string]struct {
		replicas *int32
		status   status
		want     workload.Progress
	}{
		"the status is of another template": {
			new(int32(3)),
			status{ObservedGeneration: 6, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3},
			workload.Progress{},
		},
		"another template exceeded its deadline": {
			new(int32(3)), status{ObservedGeneration: 6, Conditions: progressing("False", "ProgressDeadlineExceeded")}, workload.Progress{},
		},
		"the first new pod": {
			new(int32(3)),
			status{ObservedGeneration: 7, Replicas: 4, UpdatedReplicas: 1, ReadyReplicas: 3, AvailableReplicas: 3},
			workload.Progress{Observed: true, Counts: counts(1, 3, 3)},
		},
		"an old pod is left": {
			new(int32(3)),
			status{ObservedGeneration: 7, Replicas: 4, UpdatedReplicas: 3, ReadyReplicas: 4, AvailableReplicas: 4},
			workload.Progress{Observed: true, Counts: counts(3, 4, 4)},
		},
		"a new pod is ready, and not yet for long enough": {
			new(int32(3)),
			status{ObservedGeneration: 7, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 2},
			workload.Progress{Observed: true, Counts: counts(3, 3, 2)},
		},
		"rolled out": {
			new(int32(3)),
			status{
				ObservedGeneration: 7, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3,
				Conditions: progressing("True", "NewReplicaSetAvailable"),
			},
			workload.Progress{Observed: true, Done: true, Counts: counts(3, 3, 3)},
		},
		"scaled to none": {new(int32(0)), status{ObservedGeneration: 7}, workload.Progress{Observed: true, Done: true}},
		"one replica when nothing is said, and it is not there": {
			nil, status{ObservedGeneration: 7}, workload.Progress{Observed: true},
		},
		"one replica when nothing is said": {
			nil,
			status{ObservedGeneration: 8, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1},
			workload.Progress{Observed: true, Done: true, Counts: counts(1, 1, 1)},
		},
		"the deadline is exceeded": {
			new(int32(3)),
			status{
				ObservedGeneration: 7, Replicas: 4, UpdatedReplicas: 1, ReadyReplicas: 3, AvailableReplicas: 3,
				Conditions: progressing("False", "ProgressDeadlineExceeded"),
			},
			workload.Progress{Observed: true, Exceeded: true, Counts: counts(1, 3, 3)},
		},
		"all pods are there, and the deadline is still exceeded": {
			new(int32(3)),
			status{
				ObservedGeneration: 7, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3,
				Conditions: progressing("False", "ProgressDeadlineExceeded"),
			},
			workload.Progress{Observed: true, Exceeded: true, Counts: counts(3, 3, 3)},
		},
		"a quota is in the way": {
			new(int32(3)),
			status{ObservedGeneration: 7, Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, Conditions: progressing("False", "ReplicaSetCreateError")},
			workload.Progress{Observed: true, Counts: counts(0, 3, 3)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Replicas: test.replicas}, Status: test.status}
			d.Generation = 7
			if diff := cmp.Diff(test.want, workload.OfDeployment(d).Progress); diff != "" {
				t.Errorf("Progress (-want +got)\n%s", diff)
			}
		})
	}
}

func TestProgressOfAStatefulSet(t *testing.T) {
	t.Parallel()
	type status = appsv1.StatefulSetStatus
	rolling := func(partition *int32) appsv1.StatefulSetUpdateStrategy {
		return appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: partition},
		}
	}
	onDelete := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	tests := map[string]struct {
		strategy appsv1.StatefulSetUpdateStrategy
		status   status
		want     workload.Progress
	}{
		"nothing is known": {rolling(nil), status{}, workload.Progress{}},
		"the status is of another template": {
			rolling(nil), status{ObservedGeneration: 6, UpdatedReplicas: 3, ReadyReplicas: 3}, workload.Progress{},
		},
		"two are updated": {
			rolling(new(int32(0))),
			status{ObservedGeneration: 7, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 3},
			workload.Progress{Observed: true, Counts: counts(2, 3, 3)},
		},
		"the last is not ready": {
			rolling(new(int32(0))),
			status{ObservedGeneration: 7, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 2},
			workload.Progress{Observed: true, Counts: counts(3, 2, 2)},
		},
		"rolled out": {
			rolling(new(int32(0))),
			status{ObservedGeneration: 7, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3},
			workload.Progress{Observed: true, Done: true, Counts: counts(3, 3, 3)},
		},
		"two are updated and the strategy says no more": {
			appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			status{ObservedGeneration: 7, UpdatedReplicas: 2, ReadyReplicas: 3},
			workload.Progress{Observed: true, Counts: counts(2, 3, 0)},
		},
		"two are to be updated by the partition": {
			rolling(new(int32(1))),
			status{ObservedGeneration: 7, UpdatedReplicas: 1, ReadyReplicas: 3},
			workload.Progress{Observed: true, Counts: counts(1, 3, 0)},
		},
		"two were to be updated by the partition": {
			rolling(new(int32(1))),
			status{ObservedGeneration: 7, UpdatedReplicas: 2, ReadyReplicas: 3},
			workload.Progress{Observed: true, Done: true, Counts: counts(2, 3, 0)},
		},
		"the partition keeps all": {
			rolling(new(int32(5))),
			status{ObservedGeneration: 7, ReadyReplicas: 3},
			workload.Progress{Observed: true, Done: true, Counts: counts(0, 3, 0)},
		},
		"the partition's pod is not ready": {
			rolling(new(int32(2))),
			status{ObservedGeneration: 7, UpdatedReplicas: 1, ReadyReplicas: 2},
			workload.Progress{Observed: true, Counts: counts(1, 2, 0)},
		},
		"somebody has to delete the pods": {
			onDelete,
			status{ObservedGeneration: 7, ReadyReplicas: 2},
			workload.Progress{Observed: true, Done: true, OnDelete: true, Counts: counts(0, 2, 0)},
		},
		"somebody has to, and it is not yet observed": {
			onDelete, status{ObservedGeneration: 6, ReadyReplicas: 2}, workload.Progress{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &appsv1.StatefulSet{
				ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), UpdateStrategy: test.strategy}, Status: test.status,
			}
			s.Generation = 7
			if diff := cmp.Diff(test.want, workload.OfStatefulSet(s).Progress); diff != "" {
				t.Errorf("Progress (-want +got)\n%s", diff)
			}
		})
	}
}

func TestProgressOfADaemonSet(t *testing.T) {
	t.Parallel()
	type status = appsv1.DaemonSetStatus
	tests := map[string]struct {
		strategy appsv1.DaemonSetUpdateStrategyType
		status   status
		want     workload.Progress
	}{
		"the status is of another template": {
			appsv1.RollingUpdateDaemonSetStrategyType,
			status{ObservedGeneration: 6, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2},
			workload.Progress{},
		},
		"a node has the old pod": {
			appsv1.RollingUpdateDaemonSetStrategyType,
			status{ObservedGeneration: 7, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 1, NumberReady: 2, NumberAvailable: 2},
			workload.Progress{Observed: true, Counts: counts(1, 2, 2)},
		},
		"a new pod is not available": {
			appsv1.RollingUpdateDaemonSetStrategyType,
			status{ObservedGeneration: 7, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2, NumberAvailable: 1},
			workload.Progress{Observed: true, Counts: counts(2, 2, 1)},
		},
		"rolled out": {
			appsv1.RollingUpdateDaemonSetStrategyType,
			status{ObservedGeneration: 7, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2, NumberAvailable: 2},
			workload.Progress{Observed: true, Done: true, Counts: counts(2, 2, 2)},
		},
		"no node wants it": {
			appsv1.RollingUpdateDaemonSetStrategyType, status{ObservedGeneration: 7}, workload.Progress{Observed: true, Done: true},
		},
		"somebody has to delete the pods": {
			appsv1.OnDeleteDaemonSetStrategyType,
			status{ObservedGeneration: 7, DesiredNumberScheduled: 2, NumberReady: 1},
			workload.Progress{Observed: true, Done: true, OnDelete: true, Counts: counts(0, 1, 0)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.DaemonSet{
				ObjectMeta: meta(), Status: test.status,
				Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: test.strategy}},
			}
			d.Generation = 7
			if diff := cmp.Diff(test.want, workload.OfDaemonSet(d).Progress); diff != "" {
				t.Errorf("Progress (-want +got)\n%s", diff)
			}
		})
	}
}

// TestCrashesAreNoProgress is a rollout whose second pod crashes and starts for ever: what has been reached is reached.
func TestCrashesAreNoProgress(t *testing.T) {
	t.Parallel()
	var best workload.Counts
	steps := []struct {
		now      workload.Counts
		progress bool
	}{
		{counts(0, 3, 3), true},  // The beginning.
		{counts(1, 2, 2), true},  // The first pod,
		{counts(1, 3, 3), false}, // which is ready, as another was before.
		{counts(2, 2, 2), true},
		{counts(2, 3, 2), false},
		{counts(2, 2, 2), false},
		{counts(2, 3, 2), false},
		{counts(0, 0, 0), false},
		{counts(3, 2, 2), true},
		{counts(3, 3, 3), false},
		{counts(3, 4, 3), true}, // Scaled up meanwhile.
		{counts(3, 4, 4), true},
	}
	for i, step := range steps {
		before := best
		best = best.Max(step.now)
		if got := best != before; got != step.progress {
			t.Errorf("step %d, %+v, is progress: %v, want %v", i, step.now, got, step.progress)
		}
	}
}

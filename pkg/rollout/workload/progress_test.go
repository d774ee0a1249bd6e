package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

func counts(updated, ready, available int32) workload.Counts {
	return workload.Counts{Updated: updated, Ready: ready, Available: available}
}

// underWay is a rollout that Kubernetes has seen, with so many updated, ready and available pods, and done one that has ended.
func underWay(updated, ready, available int32) workload.Progress {
	return workload.Progress{Observed: true, Counts: counts(updated, ready, available)}
}

func done(updated, ready, available int32) workload.Progress {
	return workload.Progress{Observed: true, Done: true, Counts: counts(updated, ready, available)}
}

func TestProgressOfADeployment(t *testing.T) {
	t.Parallel()
	// The condition has a reason, and is True or False; the zero value is none.
	type condition struct {
		status corev1.ConditionStatus
		reason string
	}
	exceeded := condition{"False", "ProgressDeadlineExceeded"}
	status := func(generation int64, replicas, updated, ready, available int32) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{
			ObservedGeneration: generation, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: ready, AvailableReplicas: available,
		}
	}
	three, none := new(int32(3)), new(int32(0))
	tests := map[string]struct {
		replicas  *int32
		status    appsv1.DeploymentStatus
		condition condition
		want      workload.Progress
	}{
		"the status is of another template":                     {three, status(6, 3, 3, 3, 3), condition{}, workload.Progress{}},
		"another template exceeded its deadline":                {three, status(6, 0, 0, 0, 0), exceeded, workload.Progress{}},
		"the first new pod":                                     {three, status(7, 4, 1, 3, 3), condition{}, underWay(1, 3, 3)},
		"an old pod is left":                                    {three, status(7, 4, 3, 4, 4), condition{}, underWay(3, 4, 4)},
		"a new pod is ready, and not yet for long enough":       {three, status(7, 3, 3, 3, 2), condition{}, underWay(3, 3, 2)},
		"one replica when nothing is said, and it is not there": {nil, status(7, 0, 0, 0, 0), condition{}, underWay(0, 0, 0)},
		"one replica when nothing is said":                      {nil, status(8, 1, 1, 1, 1), condition{}, done(1, 1, 1)},
		"a quota is in the way":                                 {three, status(7, 3, 0, 3, 3), condition{"False", "ReplicaSetCreateError"}, underWay(0, 3, 3)},
		"rolled out":                                            {three, status(7, 3, 3, 3, 3), condition{"True", "NewReplicaSetAvailable"}, done(3, 3, 3)},
		"scaled to none":                                        {none, status(7, 0, 0, 0, 0), condition{}, done(0, 0, 0)},
		"the deadline is exceeded": {
			three, status(7, 4, 1, 3, 3), exceeded, workload.Progress{Observed: true, Exceeded: true, Counts: counts(1, 3, 3)},
		},
		"all pods are there, and the deadline is still exceeded": {
			three, status(7, 3, 3, 3, 3), exceeded, workload.Progress{Observed: true, Exceeded: true, Counts: counts(3, 3, 3)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Replicas: test.replicas}, Status: test.status}
			d.Generation = 7
			if c := test.condition; c != (condition{}) {
				d.Status.Conditions = []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable"},
					{Type: appsv1.DeploymentProgressing, Status: c.status, Reason: c.reason},
				}
			}
			if diff := cmp.Diff(test.want, workload.OfDeployment(d).Progress); diff != "" {
				t.Errorf("Progress (-want +got)\n%s", diff)
			}
		})
	}
}

func TestProgressOfAStatefulSet(t *testing.T) {
	t.Parallel()
	rolling := func(update *appsv1.RollingUpdateStatefulSetStrategy) appsv1.StatefulSetUpdateStrategy {
		return appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: update}
	}
	from := func(partition int32) appsv1.StatefulSetUpdateStrategy {
		return rolling(&appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition})
	}
	unsaid := rolling(&appsv1.RollingUpdateStatefulSetStrategy{})
	onDelete := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	recreate := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RecreateStatefulSetStrategyType}
	twoAtOnce := rolling(&appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromInt32(2))})
	status := func(generation int64, updated, ready, available int32) appsv1.StatefulSetStatus {
		return appsv1.StatefulSetStatus{
			ObservedGeneration: generation, UpdatedReplicas: updated, ReadyReplicas: ready, AvailableReplicas: available,
		}
	}
	tests := map[string]struct {
		strategy appsv1.StatefulSetUpdateStrategy
		status   appsv1.StatefulSetStatus
		want     workload.Progress
	}{
		"nothing is known":                              {unsaid, status(0, 0, 0, 0), workload.Progress{}},
		"the status is of another template":             {unsaid, status(6, 3, 3, 0), workload.Progress{}},
		"two are updated":                               {from(0), status(7, 2, 3, 3), underWay(2, 3, 3)},
		"the last is not ready":                         {from(0), status(7, 3, 2, 2), underWay(3, 2, 2)},
		"rolled out":                                    {from(0), status(7, 3, 3, 3), done(3, 3, 3)},
		"two are updated and the strategy says no more": {rolling(nil), status(7, 2, 3, 0), underWay(2, 3, 0)},
		"two are to be updated by the partition":        {from(1), status(7, 1, 3, 0), underWay(1, 3, 0)},
		"two were to be updated by the partition":       {from(1), status(7, 2, 3, 0), done(2, 3, 0)},
		"the partition keeps all":                       {from(5), status(7, 0, 3, 0), done(0, 3, 0)},
		"the partition's pod is not ready":              {from(2), status(7, 1, 2, 0), underWay(1, 2, 0)},
		"two are replaced at once":                      {twoAtOnce, status(7, 2, 1, 1), underWay(2, 1, 1)},
		"two were replaced at once":                     {twoAtOnce, status(7, 3, 3, 3), done(3, 3, 3)},
		"all were deleted":                              {recreate, status(7, 0, 0, 0), underWay(0, 0, 0)},
		"all were made again, and are not ready":        {recreate, status(7, 3, 0, 0), underWay(3, 0, 0)},
		"all were made again":                           {recreate, status(7, 3, 3, 3), done(3, 3, 3)},
		"somebody has to, and it is not yet observed":   {onDelete, status(6, 0, 2, 0), workload.Progress{}},
		"somebody has to delete the pods": {
			onDelete, status(7, 0, 2, 0), workload.Progress{Observed: true, Done: true, OnDelete: true, Counts: counts(0, 2, 0)},
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
	const rolling = appsv1.RollingUpdateDaemonSetStrategyType
	status := func(generation int64, desired, updated, ready, available int32) appsv1.DaemonSetStatus {
		return appsv1.DaemonSetStatus{
			ObservedGeneration: generation, DesiredNumberScheduled: desired, UpdatedNumberScheduled: updated, NumberReady: ready, NumberAvailable: available,
		}
	}
	tests := map[string]struct {
		strategy appsv1.DaemonSetUpdateStrategyType
		status   appsv1.DaemonSetStatus
		want     workload.Progress
	}{
		"the status is of another template": {rolling, status(6, 2, 2, 0, 2), workload.Progress{}},
		"a node has the old pod":            {rolling, status(7, 2, 1, 2, 2), underWay(1, 2, 2)},
		"a new pod is not available":        {rolling, status(7, 2, 2, 2, 1), underWay(2, 2, 1)},
		"rolled out":                        {rolling, status(7, 2, 2, 2, 2), done(2, 2, 2)},
		"no node wants it":                  {rolling, status(7, 0, 0, 0, 0), done(0, 0, 0)},
		"somebody has to delete the pods": {
			appsv1.OnDeleteDaemonSetStrategyType, status(7, 2, 0, 1, 0),
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

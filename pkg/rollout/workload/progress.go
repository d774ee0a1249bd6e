package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Progress is how far the rollout of a workload's template is, by its status.
type Progress struct {
	// Observed means that the status is about the template that is there now. Without it nothing
	// below is known.
	Observed bool
	// Done means that the pods are of the template, and ready, as far as they shall be: what
	// `kubectl rollout status` waits for. A partition keeps some pods of a StatefulSet as they are,
	// and the rollout is done without them. It is about now: a workload whose rollout was done is
	// not done while a pod of it restarts.
	Done bool
	// Settled means that the rollout of this template was done once, as far as the status shows it:
	// that of a StatefulSet does.
	Settled bool
	// Exceeded means that a Deployment's rollout has failed by its own deadline. The other kinds
	// have none.
	Exceeded bool
	// OnDelete means that a pod changes only when somebody deletes it. Such a rollout is done as
	// soon as it is observed: it can take any time without anything being wrong, so nobody should
	// wait for it or call it failing.
	OnDelete bool
	// Counts are zero until Observed, so that those of another template do not pass for progress.
	Counts Counts
}

// Counts are the numbers of a status that grow while a rollout goes on. They are comparable.
type Counts struct {
	// Updated are pods of the template, Ready and Available ones of any.
	Updated, Ready, Available int32
}

// Max returns the higher of each number. A rollout makes progress when the Max since its beginning
// changes. One number alone goes up and down as long as pods crash and restart, and that is not
// progress.
func (c Counts) Max(other Counts) Counts {
	return Counts{
		Updated:   max(c.Updated, other.Updated),
		Ready:     max(c.Ready, other.Ready),
		Available: max(c.Available, other.Available),
	}
}

// progressDeadlineExceeded is the reason that Kubernetes gives for a rollout that made no progress
// for too long.
const progressDeadlineExceeded = "ProgressDeadlineExceeded"

func deploymentProgress(d *appsv1.Deployment) Progress {
	status := d.Status
	if status.ObservedGeneration < d.Generation {
		return Progress{}
	}
	exceeded := exceededDeadline(status.Conditions)
	return Progress{
		Observed: true,
		Exceeded: exceeded,
		// No more than the updated ones: none of the old template is left.
		Done: !exceeded && status.UpdatedReplicas >= wanted(d.Spec.Replicas) &&
			status.Replicas <= status.UpdatedReplicas && status.AvailableReplicas >= status.UpdatedReplicas,
		Counts: Counts{Updated: status.UpdatedReplicas, Ready: status.ReadyReplicas, Available: status.AvailableReplicas},
	}
}

func exceededDeadline(conditions []appsv1.DeploymentCondition) bool {
	for _, c := range conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c.Status == corev1.ConditionFalse && c.Reason == progressDeadlineExceeded
		}
	}
	return false
}

func statefulSetProgress(s *appsv1.StatefulSet) Progress {
	status := s.Status
	if status.ObservedGeneration < s.Generation {
		return Progress{}
	}
	replicas := wanted(s.Spec.Replicas)
	onDelete := s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	return Progress{
		Observed: true,
		OnDelete: onDelete,
		Settled:  status.UpdateRevision != "" && status.CurrentRevision == status.UpdateRevision,
		Done: onDelete ||
			status.ReadyReplicas >= replicas && status.UpdatedReplicas >= replicas-partition(s.Spec.UpdateStrategy),
		Counts: Counts{Updated: status.UpdatedReplicas, Ready: status.ReadyReplicas, Available: status.AvailableReplicas},
	}
}

// partition is how many pods of a StatefulSet keep the old template.
func partition(strategy appsv1.StatefulSetUpdateStrategy) int32 {
	if strategy.RollingUpdate == nil || strategy.RollingUpdate.Partition == nil {
		return 0
	}
	return *strategy.RollingUpdate.Partition
}

func daemonSetProgress(d *appsv1.DaemonSet) Progress {
	status := d.Status
	if status.ObservedGeneration < d.Generation {
		return Progress{}
	}
	onDelete := d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	return Progress{
		Observed: true,
		OnDelete: onDelete,
		Done: onDelete || status.UpdatedNumberScheduled >= status.DesiredNumberScheduled &&
			status.NumberAvailable >= status.DesiredNumberScheduled,
		Counts: Counts{Updated: status.UpdatedNumberScheduled, Ready: status.NumberReady, Available: status.NumberAvailable},
	}
}

// wanted is how many replicas a spec asks for. The API server fills in 1.
func wanted(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

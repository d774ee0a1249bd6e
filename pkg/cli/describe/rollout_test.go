package describe

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

func TestRolloutOf(t *testing.T) {
	t.Parallel()
	config := trigger.Config{{Kind: api.ConfigMap, Name: "app"}: "app-1"}
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{trigger.ConfigAnnotation: config.String()}}}
	triggered := map[string]string{trigger.TriggeredBy: "configmap/app", trigger.AfterUndo: trigger.Pause}
	got := rolloutOf(workload.Workload{Annotations: triggered, Template: template}, state.State{Name: state.Pending, Why: "x"})
	want := &Rollout{
		TriggeredBy: "configmap/app", State: "pending: x", AfterUndo: trigger.Pause,
		WhileFailing: "as configured in the controller, hold by default", Copies: copiesIn(config),
	}
	wantSame(t, "RolloutOf", want, got)
	if got := rolloutOf(workload.Workload{Template: &corev1.PodTemplateSpec{}}, state.State{}); got != nil {
		t.Errorf("RolloutOf a workload that nothing triggers = %+v, want nil", got)
	}
}

func TestCopiesIn(t *testing.T) {
	t.Parallel()
	got := copiesIn(trigger.Config{{Kind: api.Secret, Name: "gone"}: "", {Kind: api.ConfigMap, Name: "app"}: "app-1"})
	want := []Copy{{Of: "configmap/app", Copy: "configmap/app-1"}, {Of: "secret/gone"}}
	wantSame(t, "CopiesIn", want, got)
}

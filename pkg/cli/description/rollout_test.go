package description_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/description"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

func TestRolloutOf(t *testing.T) {
	t.Parallel()
	config := trigger.Config{{Kind: api.ConfigMap, Name: "app"}: "app-1", {Kind: api.Secret, Name: "gone"}: ""}
	other := trigger.Config{{Kind: api.ConfigMap, Name: "app"}: "app-2"}
	triggered := map[string]string{trigger.TriggeredBy: "configmap/app"}
	tests := map[string]struct {
		annotations map[string]string
		label       string
		config      string
		paused      bool
		want        string // The beginning of the state; empty for no rollout at all.
	}{
		"nothing triggers it":                {},
		"nothing has been rolled out yet":    {annotations: triggered, want: "the rollout controller has not made it a revision yet"},
		"rolled out":                         {annotations: triggered, label: trigger.MarkOf(config).String(), config: config.String(), want: "rolled out"},
		"rolled out, and paused":             {annotations: triggered, label: trigger.MarkOf(config).String(), config: config.String(), paused: true, want: "rolled out; paused"},
		"undone":                             {annotations: triggered, label: trigger.MarkOf(other).UndoneFor(config).String(), config: config.String(), want: "the last change was undone; it stays so until a source is edited"},
		"undone, by the name that was first": {annotations: map[string]string{trigger.TriggeredByFirst: "cm/app"}, label: "x", config: config.String(), want: "the last change was undone"},
		"nothing triggers it any more":       {config: config.String(), want: "opted out"},
		"what triggers cannot be read":       {annotations: map[string]string{trigger.TriggeredBy: "app"}, want: `not rolled out: the annotation liveconfig.internal/triggered-by "app" names no kind`},
		"what was rolled out cannot be read": {annotations: triggered, config: "[", want: "not known: the annotation liveconfig.internal/config"},
		"undone at a time, and waits for a person": {
			annotations: map[string]string{
				trigger.TriggeredBy: "configmap/app", trigger.AfterUndo: trigger.Pause, trigger.UndoneAnnotation: `{"at":"2026-03-01T12:00:00Z"}`,
			},
			label: "x", config: config.String(),
			want: "the last change was undone at 2026-03-01T12:00:00Z; it stays so until: kubectl annotate deployment/web liveconfig.internal/undone-",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meta := metav1.ObjectMeta{Annotations: map[string]string{}}
			if test.config != "" {
				meta.Annotations[trigger.ConfigAnnotation] = test.config
			}
			got := description.RolloutOf(workload.Workload{
				Ref: workload.Ref{Kind: workload.Deployment, Name: "web"}, Annotations: test.annotations, Paused: test.paused,
				Labels: map[string]string{trigger.RolloutLabel: test.label}, Template: &corev1.PodTemplateSpec{ObjectMeta: meta},
			}, "3")
			if got == nil || test.want == "" {
				if got != nil || test.want != "" {
					t.Errorf("RolloutOf = %+v, want one in the state %q", got, test.want)
				}
				return
			}
			if !strings.HasPrefix(got.State, test.want) || got.Revision != "3" {
				t.Errorf("RolloutOf = %+v, want revision 3 in the state %q", got, test.want)
			}
		})
	}
}

func TestCopiesIn(t *testing.T) {
	t.Parallel()
	got := description.CopiesIn(trigger.Config{{Kind: api.Secret, Name: "gone"}: "", {Kind: api.ConfigMap, Name: "app"}: "app-1"})
	want := []description.Copy{{Of: "configmap/app", Copy: "configmap/app-1"}, {Of: "secret/gone"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CopiesIn (-want +got)\n%s", diff)
	}
}

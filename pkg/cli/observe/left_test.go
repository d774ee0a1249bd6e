package observe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
)

// TestLeftInTree: pods of a workload have the same reasons, which are shown once. Somebody may write a long annotation.
func TestLeftInTree(t *testing.T) {
	t.Parallel()
	numbered := make([]string, 100)
	for i := range numbered {
		numbered[i] = fmt.Sprintf("v%d: x", i)
	}
	tests := map[string]struct {
		annotations []string
		want        []string
	}{
		"no pod":           {},
		"nothing stays":    {annotations: []string{"", ""}},
		"the same":         {annotations: []string{"a: has a x; b: y", "a: has a x; b: y"}, want: []string{"a: has a x", "b: y"}},
		"before and after": {annotations: []string{"a: x", "a: x; b: y"}, want: []string{"a: x", "b: y"}},
		"a long text":      {annotations: []string{strings.Repeat("x", 5000)}, want: []string{strings.Repeat("x", 2048)}},
		"too many entries": {annotations: []string{strings.Join(numbered, "; ")}, want: numbered[:20]},
		"too many in pods": {annotations: numbered, want: numbered[:20]},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pods []*observe.Pod
			for _, text := range test.annotations {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{admission.Left: text}}}
				pods = append(pods, &observe.Pod{Pod: pod})
			}
			if diff := cmp.Diff(test.want, observe.LeftInTree(pods)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

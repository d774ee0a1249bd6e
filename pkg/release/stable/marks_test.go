package stable_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// TestMark: a cache has of a released object the group alone, and what else it has of annotations stays. The object is not changed.
func TestMark(t *testing.T) {
	t.Parallel()
	long := "{group: g, steps: [1, 2, 3], pause: 1h}"
	for name, tc := range map[string]struct{ stored, of, want metav1.ObjectMeta }{
		"an object that is not released": {
			of: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "long"}},
		},
		"a released object of a group": {
			of:   metav1.ObjectMeta{Annotations: map[string]string{release.Annotation: long, "note": "long"}},
			want: metav1.ObjectMeta{Annotations: map[string]string{release.Annotation: `group: "g"`}},
		},
		"a released object without a group": {
			of:   metav1.ObjectMeta{Annotations: map[string]string{release.Annotation: "{steps: [1]}"}},
			want: metav1.ObjectMeta{Annotations: map[string]string{release.Annotation: ""}},
		},
		"a stable copy": {
			of:   metav1.ObjectMeta{Labels: map[string]string{release.StableLabel: "web", "app": "web"}, Annotations: map[string]string{"note": "long"}},
			want: metav1.ObjectMeta{Labels: map[string]string{release.StableLabel: "web"}},
		},
		"an object whose annotations the cache has": {
			stored: metav1.ObjectMeta{Annotations: map[string]string{release.Annotation: long, "note": "long"}},
			of:     metav1.ObjectMeta{Annotations: map[string]string{release.Annotation: long, "note": "long"}},
			want:   metav1.ObjectMeta{Annotations: map[string]string{release.Annotation: `group: "g"`, "note": "long"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := &corev1.ConfigMap{ObjectMeta: tc.of}
			before, got := of.DeepCopy(), tc.stored
			stable.Mark(&got, of)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, of); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

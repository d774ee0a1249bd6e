package stable

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// Mark adds to the metadata that a cache stores of an object what shows whether the object is
// released, a stable copy, or keeps former contents: a label, and of the release annotation only
// the group. The annotation is read here, once for each event.
func Mark(stored *metav1.ObjectMeta, o metav1.Object) {
	for _, name := range []string{release.StableLabel, release.FormerLabel} {
		if label := o.GetLabels()[name]; label != "" {
			stored.Labels = clone(stored.Labels)
			stored.Labels[name] = label
		}
	}
	if value, isReleased := o.GetAnnotations()[release.Annotation]; isReleased {
		stored.Annotations = clone(stored.Annotations)
		stored.Annotations[release.Annotation] = settings.Brief(value)
	}
}

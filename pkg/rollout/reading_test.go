package rollout

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// TestRevisionThatChangesWhileItWaits: the cache has a new object for each pod of a revision that becomes ready. Its attributes
// are charged once, and nothing remembers them once the workload is gone.
//
// Fault 42.
func TestRevisionThatChangesWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := idleController(t)
		ref := workload.Ref{Kind: workload.Deployment, Namespace: "default", Name: "web"}
		doubtful := func() *cachedRevision {
			set := replicaSetOf("uid", "default", "web-1", "1", `{"configmap/app":"app-0123456789"}`)
			set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
				Driver: c.cfg.DriverName, VolumeAttributes: map[string]string{"configMap": "app"},
			}}}}
			return cached[*cachedRevision](t, c, set)
		}
		first := doubtful()
		c.attributeBytes.Wait("default", "other work", textBurst)
		_, wait := c.isPlain(ref, first)
		if wait == 0 {
			t.Fatal("the revision does not wait")
		}
		left := c.attributeBytes.Left("default")
		for range 10 {
			if _, again := c.isPlain(ref, doubtful()); again != wait {
				t.Errorf("the changed revision waits for %s, want %s", again, wait)
			}
		}
		if got := c.attributeBytes.Left("default"); got != left {
			t.Errorf("%g bytes of the namespace are left, want %g", got, left)
		}
		<-time.After(wait)
		if plain, wait := c.isPlain(ref, doubtful()); !plain || wait > 0 {
			t.Errorf("isPlain = %t after another %s, want true at once", plain, wait)
		}
	})
}

package driver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestASamePodAgain (fault 17): a StatefulSet makes a pod of the same name while the volumes of the one before are still
// there, with other contents in mind. Each has its own files, and neither the end of the old one nor a restart of the
// driver touches the new one's.
func TestASamePodAgain(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("one", map[string]string{"n": "one"})
	b.CreateConfigMap("two", map[string]string{"n": "two"})
	before := b.Pod("web-0", map[string]string{"configMap": "one"})
	b.Publish(before)
	after := b.Pod("web-0", map[string]string{"configMap": "two"})
	if before.UID == after.UID {
		t.Fatal("the second pod has the UID of the first one")
	}
	b.Publish(after)
	for pod, want := range map[*corev1.Pod]string{before: "one", after: "two"} {
		if err := b.Holds(pod, "n", want); err != nil {
			t.Error(err)
		}
	}
	b.WantMounts(2, "old and new")
	b.Kill()
	b.UpdateConfigMap("two", map[string]string{"n": "two, changed"})
	b.Start()
	b.Unpublish(before)
	b.WantNothing(before, "when its pod is gone")
	b.WantFile(after, "n", "two, changed")
	b.WantNumber("liveconfig_watches", 1)
	b.UpdateConfigMap("two", map[string]string{"n": "two, again"})
	b.WantFile(after, "n", "two, again")
}

// TestAStaticPodAgain (fault 17): a static pod has the same UID each time, and so the same volume ID and the same target,
// whatever its volumes are now. What the last one had is not seen again.
func TestAStaticPodAgain(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("one", map[string]string{"only-in-one": "1"})
	b.CreateConfigMap("two", map[string]string{"n": "2"})
	pod := b.Pod("static", nil)
	for range 5 {
		for file, name := range map[string]string{"only-in-one": "one", "n": "two"} {
			pod.Spec.Volumes = nil
			fixture.AddVolume(pod, fixture.VolumeName, map[string]string{"configMap": name})
			must(t, b.TryPublish(t.Context(), pod))
			if err := b.Holds(pod, file, map[string]string{"one": "1", "two": "2"}[name]); err != nil {
				t.Error(err)
			}
			if name == "two" {
				b.WantNoFile(pod, "only-in-one")
			}
			b.WantMounts(1, "of a static pod")
			b.WantNumber("liveconfig_watches", 1)
			b.Unpublish(pod)
			b.WantNothing(pod, "between two lives")
		}
	}
}

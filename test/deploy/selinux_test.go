package deploy

import (
	"os"
	"path/filepath"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"
)

// TestNoSELinuxMount: the CSIDriver object does not ask for mounts with a context. With seLinuxMount: true, the kubelet would
// take the driver for one that gives each pod's mount the pod's own label. Pods share the tmpfs of equal volumes, and the kernel
// gives a tmpfs one context, for all of its mounts: the second pod with another label would wait forever.
func TestNoSELinuxMount(t *testing.T) {
	t.Parallel()
	manifests, err := filepath.Glob(filepath.Join("..", "..", "deploy", "*", "csidriver.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifest of a CSIDriver was found: %v", err)
	}
	for _, file := range manifests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var driver storagev1.CSIDriver
		if err := yaml.UnmarshalStrict(text, &driver); err != nil || driver.Kind != "CSIDriver" {
			t.Fatalf("%s is a %q, %v", file, driver.Kind, err)
		}
		if driver.Spec.SELinuxMount != nil && *driver.Spec.SELinuxMount {
			t.Errorf("%s has seLinuxMount: true: pods share the mounts of equal volumes, which have one context", file)
		}
	}
}

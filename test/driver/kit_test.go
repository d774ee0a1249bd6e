package driver

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestExampleOfTheKit is the example of test/kit/README.md.
func TestExampleOfTheKit(t *testing.T) {
	t.Parallel()

	f := fixture.New(t) // A namespace, and a node with its own driver.
	f.CreateConfigMap("web", map[string]string{"color": "red"})
	pod := f.Pod("app", map[string]string{"configMap": "web"})
	f.Publish(pod)
	f.WantFile(pod, "color", "red")

	f.UpdateConfigMap("web", map[string]string{"color": "blue"})
	f.WantFile(pod, "color", "blue")

	f.DeleteConfigMap("web")
	f.WantEvent(pod, "SourceMissing", `configmap "web" not found`)
}

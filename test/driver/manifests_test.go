package driver

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
)

// TestAManifestWithAMistakeKeepsTheFiles, and says where the mistake is: in the log, in the status and in a metric. A driver that
// starts with one leaves the files of live volumes alone, and refuses what it cannot know. What changed while none ran follows.
func TestAManifestWithAMistakeKeepsTheFiles(t *testing.T) {
	t.Parallel()
	b := newRigWithout(t, "--publish-timeout=200ms")
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pod := b.Pod("web", map[string]string{"configMap": "web", "onDelete": "Remove"})
	b.Publish(pod)
	manifest := filepath.Join(b.Manifests, "ConfigMap-web.json")
	good, err := os.ReadFile(manifest)
	must(t, err)
	writeFile(t, manifest, strings.Replace(string(good), `"data":{`, `"data":{"port":6379,`, 1))
	b.WantNumber("liveconfig_manifest_problems", 1)
	b.WantFile(pod, "color", "red")
	const want = `data.port: a value must be a string: put it in quotes`
	b.wantProblem(want)
	if log := b.log(); !strings.Contains(log, "ConfigMap-web.json, document 1, line 1: "+want) {
		t.Errorf("the log does not say where the mistake is:\n%s", log)
	}

	b.Kill()
	b.Start()
	b.wantProblem(want)
	b.WantFile(pod, "color", "red")
	b.WantRefusal(b.Pod("other", map[string]string{"configMap": "web"}), codes.Unavailable, want)

	writeFile(t, manifest, strings.ReplaceAll(string(good), "red", "green"))
	b.WantNumber("liveconfig_manifest_problems", 0)
	b.WantFile(pod, "color", "green")
	b.Kill()
	writeFile(t, manifest, strings.ReplaceAll(string(good), "red", "blue"))
	b.Start()
	b.WantFile(pod, "color", "blue")
	b.DeleteConfigMap("web")
	b.WantNoFile(pod, "color")
}

// wantProblem wants that the status of a driver without an API server has one problem with the text.
func (b *rig) wantProblem(text string) {
	b.T.Helper()
	var report statusz.Report
	must(b.T, json.Unmarshal([]byte(b.Get("/statusz")), &report))
	m := report.Manifests
	if m == nil || m.Directory != b.Manifests || len(m.Problems) != 1 || m.Problems[0].Message != text {
		b.T.Errorf("the status says of the manifests: %+v, want the problem %q", m, text)
	}
}

// log is what the driver has written.
func (b *rig) log() string {
	b.T.Helper()
	text, err := os.ReadFile(b.Node.LogFile())
	must(b.T, err)
	return string(text)
}

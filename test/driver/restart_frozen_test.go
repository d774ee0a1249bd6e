package driver

import (
	"os"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestAVolumeThatIsFrozenSaysSoOnItsPod: a driver that no longer takes a record's attributes leaves the volume as it is,
// and what it finds when it starts reaches the pod (fault 20).
func TestAVolumeThatIsFrozenSaysSoOnItsPod(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	pod := publish(b, "web", "1")
	b.Kill()
	path := recordOf(b, pod)
	record, err := os.ReadFile(path)
	must(t, err)
	older := strings.Replace(string(record), `"configMap":"web"`, `"configMap":"web","ofAnEarlierVersion":"x"`, 1)
	if older == string(record) {
		t.Fatalf("the record %s holds no attributes as expected", record)
	}
	must(t, os.WriteFile(path, []byte(older), 0o600))
	b.Start()
	b.WantEvent(pod, "Frozen", "ofAnEarlierVersion")
	b.WantFile(pod, "n", "1")
	b.WantNumber("liveconfig_frozen_volumes", 1)
}

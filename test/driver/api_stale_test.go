package driver

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestEtcdIsRestored is faults 24 and 26, in a separate cluster: the API server and etcd are restarted, and an older
// state of all objects is restored, with resource versions that have been given to other contents before. Volumes follow.
func TestEtcdIsRestored(t *testing.T) {
	t.Parallel()
	environment.Cluster(t)
	c, err := cluster.Start(t.Context(), cluster.Config{Output: t.Output()})
	must(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := fixture.NewBareIn(t, c)
	b.Use(environment.NodeIn(t, c, "--http-endpoint="+b.HTTP))
	changed, deleted := publish(b, "changed", "early"), publish(b, "deleted", "early")
	untouched := publish(b, "untouched", "early")
	must(t, c.Save(t.Context()))
	environment.Eventually(t, healed, func() error {
		set(b, "changed", "late")
		return b.Holds(changed, "n", "late")
	})
	b.DeleteConfigMap("deleted")
	b.WantEvent(deleted, "SourceMissing", "")
	generation := b.Generation(untouched)
	must(t, c.Restore(t.Context()))
	environment.Eventually(t, healed, func() error { return b.Holds(changed, "n", "early") })
	// These objects get versions now that other contents had before the state was restored.
	wantFollows(b, changed, 3, healed)
	wantFollows(b, deleted, 1, healed)
	if got := b.Generation(untouched); got != generation {
		t.Error("a volume was written again whose object was the same all the time")
	}
}

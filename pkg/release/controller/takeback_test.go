package controller

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestATakenBackEdit: the drivers of pods that had it are asked, and an Event reports when their files do not have it any more, or
// that this is not known.
func TestATakenBackEdit(t *testing.T) {
	t.Parallel()
	web := volumes(map[string]string{"configMap": "web"})
	f := newFixture(t, aPod{"one", "x", "1", false, web})
	drivers := &fakeDrivers{answers: map[string]Answer{"1": {Volumes: []statusz.Volume{reported("one", "edit-2")}}}}
	f.c.proofs.drivers = drivers
	const settings = "{steps: [1], pause: 1h}"
	f.set("web", settings, "1")
	f.until("there is a stable copy", func() bool { return f.hasCopy("web") })
	f.set("web", settings, "2")
	f.until("the pod has the edit", func() bool { return f.exposure("web").Step == 1 })
	f.notReady("one")
	f.until("it is taken back", func() bool { return f.exposure("web").State == release.Reverted })
	f.since("web", time.Now().Add(-waitingTime))
	f.until("an Event says that the pod may have it", func() bool {
		return f.count(ReasonStillShown) == 1 && f.count(`pod one on node 1: volume "config" has another version of configmap/web`) == 1
	})
	if f.count(ReasonTakenBack) > 0 {
		t.Errorf("Events: %q, want none that the pod has what was before", f.texts)
	}
	drivers.set("1", Answer{Volumes: []statusz.Volume{reported("one", f.object("web.stable").ResourceVersion)}})
	f.c.proofs.expire()
	f.until("an Event says that the files have what was before", func() bool {
		return f.count(ReasonTakenBack) == 1 && f.count("in the files that had the edit (pods asked about: 1)") == 1
	})
	asked := drivers.asked
	for range 20 {
		f.reconcile()
	}
	if drivers.asked != asked || f.count(ReasonTakenBack) != 1 {
		t.Errorf("drivers were asked %d times more, Events: %q", drivers.asked-asked, f.texts)
	}
}

package plan_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// TestGroup: objects that are released together wait for each other, and a controller that is killed
// between any two writes goes on.
func TestGroup(t *testing.T) {
	t.Parallel()
	const tls = "secret/tls"
	for killed := range 12 {
		t.Run(fmt.Sprint("killed after write ", killed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 8, "{group: g, steps: [1, 50%], pause: 10s}", web, tls)
			w.edit(web, "2")
			if after := w.do(); after != 2*time.Second {
				t.Errorf("it looks again after %s, want the quiet period", after)
			}
			w.pass(time.Second)
			w.edit(tls, "2")
			w.pass(2 * time.Second)
			writes := 0
			for range 40 {
				d := plan.Decide(w.unit)
				if d.Action == plan.Rest {
					if w.unit.Objects[0].Stable == "2" && w.unit.Objects[1].Stable == "2" {
						break
					}
					w.pass(max(d.After, time.Millisecond))
					continue
				}
				for _, name := range d.Names {
					if writes++; writes == killed {
						break // The next controller finds what was written until here.
					}
					w.act(name, d)
					w.wantTogether()
				}
			}
			w.wantStable("2")
		})
	}
}

// wantTogether checks that no pod has the candidate of one object without that of the other, by the
// rule that drivers follow.
func (w *world) wantTogether() {
	w.Helper()
	a, b := w.unit.Objects[0], w.unit.Objects[1]
	for _, p := range w.unit.Pods {
		shows := func(o, other plan.Object) bool {
			if !o.Exposure.Shows(p.UID, o.Candidate) {
				return o.Stable == o.Candidate
			}
			return other.Together == o.Exposure.Together() || maps.Equal(other.Exposure.With, o.Exposure.With) && other.Exposure.Shows(p.UID, other.Candidate)
		}
		if shows(a, b) != shows(b, a) {
			w.Errorf("pod %s has the candidate of one object only: %+v %+v", p.Name, a, b)
		}
	}
}

// TestAPersonEndsARelease of one object of a group: it ends for all.
func TestAPersonEndsARelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8, "{group: g, steps: [1, 50%], pause: 10s}", web, "secret/tls")
	w.edit(web, "2")
	w.edit("secret/tls", "2")
	w.pass(3 * time.Second).do()
	w.wantShown(1, release.Progressing)
	w.unit.Objects[1].Exposure = release.Exposure{Digest: "2", State: release.Reverted}
	w.do()
	w.wantShown(0, release.Reverted)
}

// TestARefusedGroupStaysRefused, and a newer edit of one object begins again, although another one has
// been promoted by hand meanwhile.
func TestARefusedGroupStaysRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, "{group: g, steps: [1], pause: 30s}", web, "secret/tls")
	w.refuses = true
	w.edit(web, "2")
	w.edit("secret/tls", "2")
	w.pass(5 * time.Second).do()
	w.wantShown(0, release.Refused)
	w.unit.Objects[0].Stable, w.unit.Objects[0].Exposure = "2", release.Exposure{}
	w.do()
	w.pass(time.Hour).do()
	w.wantShown(0, release.Refused)
	w.refuses = false
	w.unit.Objects[0].Together = w.unit.Objects[1].Exposure.Together()
	w.edit("secret/tls", "3")
	w.pass(5 * time.Second).do()
	w.wantShown(1, release.Progressing)
}

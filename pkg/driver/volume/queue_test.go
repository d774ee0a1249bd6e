package volume_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestSlowSyncsOfOneNamespace take only a share of the workers: a bystander's update does not wait
// for them. Afterwards all of them are done.
func TestSlowSyncsOfOneNamespace(t *testing.T) {
	alone(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		d, bystander := n.live(configMap("web"))
		slow := d.volumesElsewhere(8)
		gate := n.faults.hang("open")
		n.cluster.set(api.Ref{Kind: api.ConfigMap, Namespace: "slow", Name: "web"}, "a", "2")
		pass(latency)
		n.faults.on("open", nil) // Those that have begun still hang.
		n.cluster.set(web, "a", "3")
		pass(latency)
		n.wantFiles(bystander, map[string]string{"a": "3"})
		gate()
		pass(settling)
		for _, r := range slow {
			n.wantFiles(r, map[string]string{"a": "2"})
		}
	})
}

// volumesElsewhere publishes volumes of pods of the namespace «slow», each with separate files.
func (d *driver) volumesElsewhere(count int) (all []state.Record) {
	d.n.Helper()
	d.n.cluster.set(api.Ref{Kind: api.ConfigMap, Namespace: "slow", Name: "web"}, "a", "1")
	for i := range count {
		r := d.n.replica(fmt.Sprintf("slow-%d", i), configMap("web"))
		r.Pod.Namespace = "slow"
		d.publish(r)
		all = append(all, r)
	}
	return all
}

// TestGuardReleasedSources: what one update costs grows with the number of released sources, and not
// with its square, although each is of a group and has many partners.
func TestGuardReleasedSources(t *testing.T) {
	cost := map[int]uint64{}
	for _, objects := range []int{100, 400} {
		alone(t, func(n *node) {
			refs := n.releaseMany(objects)
			d := n.start()
			r := n.request("config", sources(namesOf(refs)))
			if objects > release.MostMembers { // Copies of different groups disagree. It is waited for once.
				d.wantRefused(r, volume.NotReady)
				pass(10 * time.Minute)
			}
			d.publish(r)
			key := source.Key{Identity: identity.Driver(), Ref: refs[0]}
			cost[objects] = ^uint64(0)
			for range 5 {
				cost[objects] = min(cost[objects], allocations(func() { d.Changed(key); synctest.Wait() }))
			}
		})
	}
	if cost[100] == 0 || cost[400] > 6*cost[100] {
		t.Errorf("a sync with 100 and 400 released sources makes %d and %d allocations, want six times as many at most", cost[100], cost[400])
	}
}

// releaseMany creates released objects in groups that are as large as they may be, all of which are
// shown to nobody.
func (n *node) releaseMany(objects int) (refs []api.Ref) {
	with := map[string]string{}
	for i := range objects {
		ref := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: fmt.Sprint("object-", i)}
		if refs = append(refs, ref); len(with) < release.MostMembers {
			with[release.NameOf(ref)] = "1"
		}
	}
	for _, ref := range refs {
		e := release.Exposure{Digest: n.cluster.edit(ref, ref.Name, "1"), With: with}
		n.cluster.setCopy(ref, map[string]string{
			release.ExposureAnnotation: e.String(), release.PartnersAnnotation: release.Partners(nil).Promoted(e).String(),
		}, ref.Name, "1")
	}
	return refs
}

func namesOf(refs []api.Ref) string {
	var list []string
	for _, ref := range refs {
		list = append(list, "{configMap: {name: "+ref.Name+"}}")
	}
	return strings.Join(list, ", ")
}

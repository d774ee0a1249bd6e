package volume_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// releasedTogether sets up a volume of the ConfigMaps web and other, which are of one group and have 1.
func (n *node) releasedTogether() (d *driver, r state.Record) {
	n.Helper()
	for _, ref := range []api.Ref{web, other} {
		n.cluster.edit(ref, ref.Name, "1")
		n.cluster.stabilize(ref, release.Exposure{}, ref.Name, "1")
	}
	d, r = n.live(map[string]string{api.KeySources: `[{configMap: {name: web}}, {configMap: {name: other}}]`})
	n.wantBoth(r, "1", "1")
	return d, r
}

func (n *node) wantBoth(r state.Record, ofWeb, ofOther string) {
	n.Helper()
	pass(latency)
	n.wantFiles(r, map[string]string{web.Name: ofWeb, other.Name: ofOther})
}

// together returns the exposures of a release of both objects to some pods or, with the threshold 1, to all.
func together(value string, threshold float64, pods ...string) map[api.Ref]release.Exposure {
	with := map[string]string{release.NameOf(web): value, release.NameOf(other): value}
	exposures := map[api.Ref]release.Exposure{}
	for _, ref := range []api.Ref{web, other} {
		exposures[ref] = release.Exposure{
			Digest: release.Digest(map[string][]byte{ref.Name: []byte(value)}), With: with, Threshold: threshold, Pods: pods, State: release.Progressing,
		}
	}
	return exposures
}

// TestADriverThatLags learns of the objects of a group and their copies in any order, and misses some of
// their versions. It never shows a pod the edit of one object without that of the other.
func TestADriverThatLags(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.releasedTogether()
		random := rand.New(rand.NewPCG(1, 2)) // Each run is the same.
		for round := 2; round < 100; round++ {
			before, value := strconv.Itoa(round-1), strconv.Itoa(round)
			pods := [][]string{nil, {r.Pod.UID}}[random.IntN(2)] // Of the first step.
			var news [4]func(version int)                        // The objects, and their copies.
			for i, ref := range []api.Ref{web, other} {
				news[i] = func(int) { n.cluster.edit(ref, ref.Name, value) }
				news[2+i] = func(version int) {
					switch version {
					case 1:
						n.cluster.stabilize(ref, together(value, 0, pods...)[ref], ref.Name, before)
					case 2:
						n.cluster.stabilize(ref, together(value, 1)[ref], ref.Name, before)
					case 3:
						n.cluster.promoteTogether(ref, together(value, 1)[ref], ref.Name, value)
					}
				}
			}
			const last = 3
			log, known := "", [4]int{}
			for known != [4]int{last, last, last, last} {
				object := random.IntN(len(news))
				if known[object] == last {
					continue
				}
				known[object] += 1 + random.IntN(last-known[object])
				log += fmt.Sprintf(" object %d has version %d;", object, known[object])
				news[object](known[object])
				pass(latency)
				if got := n.files(r.TargetPath); got[web.Name] != got[other.Name] {
					n.Fatalf("release %s: %v after%s", value, got, log)
				}
			}
			n.wantBoth(r, value, value)
		}
	})
}

// TestCopiesThatNeverAgree keep a volume from changing for a while only: a copy was created again, or was
// promoted alone by an earlier version of the controller.
func TestCopiesThatNeverAgree(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.releasedTogether()
		n.cluster.promoteTogether(web, together("2", 1)[web], web.Name, "2")
		n.wantBoth(r, "1", "1")
		n.wantProblem(r, "")
		pass(30 * time.Second)
		n.wantBoth(r, "1", "1")
		pass(time.Minute)
		n.wantBoth(r, "2", "1")
	})
}

// TestAPartnerIsOfTheSameNamespace: a copy of another namespace, whose source has the name of a partner, keeps nothing back.
func TestAPartnerIsOfTheSameNamespace(t *testing.T) {
	bubble(t, func(n *node) {
		foreign := api.Ref{Kind: other.Kind, Namespace: "elsewhere", Name: other.Name}
		for _, ref := range []api.Ref{web, foreign} {
			n.cluster.edit(ref, ref.Name, "1")
			n.cluster.stabilize(ref, release.Exposure{}, ref.Name, "1")
		}
		_, r := n.live(map[string]string{api.KeySources: `[{configMap: {name: web}}, {configMap: {name: other, namespace: elsewhere}}]`})
		n.wantBoth(r, "1", "1")
		n.cluster.promoteTogether(web, together("2", 1)[web], web.Name, "2")
		n.wantBoth(r, "2", "1")
	})
}

// TestAPersonPromotesOneObjectOfAGroup, whose release has ended for the other one: volumes have that at
// once. So they have what is released alone afterwards.
func TestAPersonPromotesOneObjectOfAGroup(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.releasedTogether()
		reverted := together("2", 0)
		for ref, e := range reverted {
			e.State = release.Reverted
			n.cluster.edit(ref, ref.Name, "2")
			n.cluster.stabilize(ref, e, ref.Name, "1")
		}
		n.wantBoth(r, "1", "1")
		n.cluster.promoteTogether(web, reverted[web], web.Name, "2")
		n.wantBoth(r, "2", "1")
		n.cluster.promoteTogether(other, reverted[other], other.Name, "2")
		n.wantBoth(r, "2", "2")
		n.cluster.promoteAlone(other, other.Name, "3")
		n.wantBoth(r, "2", "3")
	})
}

package volume_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

var (
	webStable = release.StableOf(web)
	other     = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "other"}
)

// edit changes an object that is released, and returns the digest of its data.
func (c *cluster) edit(ref api.Ref, data ...string) (digest string) {
	c.setWith(ref, map[string]string{release.Annotation: ""}, nil, data...)
	return release.Digest(c.objects[ref].Data)
}

// stabilize writes the stable copy of an object.
func (c *cluster) stabilize(ref api.Ref, e release.Exposure, data ...string) {
	c.setCopy(ref, map[string]string{
		release.ExposureAnnotation: e.String(), release.PartnersAnnotation: c.partnersOf(ref).String(),
	}, data...)
}

// promoteTogether writes the stable copy of an object whose candidate was shown together with others.
func (c *cluster) promoteTogether(ref api.Ref, e release.Exposure, data ...string) {
	c.setCopy(ref, map[string]string{
		release.TogetherAnnotation: e.Together(), release.PartnersAnnotation: c.partnersOf(ref).Promoted(e).String(),
	}, data...)
}

// setCopy writes the stable copy of an object with annotations.
func (c *cluster) setCopy(ref api.Ref, annotations map[string]string, data ...string) {
	c.setWith(release.StableOf(ref), annotations, map[string]string{release.StableLabel: release.LabelOf(ref.Name)}, data...)
}

func (c *cluster) partnersOf(ref api.Ref) release.Partners {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.marks[release.StableOf(ref)]; m != nil {
		return m.Partners
	}
	return nil
}

func (c *cluster) setWith(ref api.Ref, annotations, labels map[string]string, data ...string) {
	c.slip(ref, data...)
	c.change(ref, func() { c.marks[ref] = release.MarksOf(annotations, labels, c.objects[ref].Data) })
}

// released sets up a driver with two volumes of the ConfigMap web, which is released and holds a=1 as
// its stable copy does.
func (n *node) released() (d *driver, first, second state.Record) {
	n.Helper()
	n.cluster.edit(web, "a", "1")
	n.cluster.stabilize(web, release.Exposure{}, "a", "1")
	d = n.start()
	all := d.replicas(2, configMap("web"))
	n.wantValues(map[string]string{"replica-0": "1", "replica-1": "1"}, all...)
	return d, all[0], all[1]
}

// wantValues checks, by pod, the value of the key «a».
func (n *node) wantValues(want map[string]string, volumes ...state.Record) {
	n.Helper()
	pass(settling)
	for _, r := range volumes {
		n.wantFiles(r, map[string]string{"a": want[r.Pod.Name]})
	}
}

// TestRelease is one release: an edit reaches nobody, then the pods that are exposed, then all; and
// another one is taken back.
func TestRelease(t *testing.T) {
	bubble(t, func(n *node) {
		d, first, second := n.released()
		n.wantAlone(first, second)
		digest := n.cluster.edit(web, "a", "2")
		n.wantValues(map[string]string{"replica-0": "1", "replica-1": "1"}, first, second)

		e := release.Exposure{Digest: digest, Pods: []string{first.Pod.UID}, State: release.Progressing}
		n.cluster.stabilize(web, e, "a", "1")
		n.wantValues(map[string]string{"replica-0": "2", "replica-1": "1"}, first, second)
		for i, isShown := range []bool{true, false} {
			s := d.Status(func(api.Pod) bool { return true })[i].Sources[0].Release
			if s == nil || s.IsShown != isShown || s.State != string(release.Progressing) {
				n.Errorf("the status of replica %d has the release %+v, want that it is shown: %t", i, s, isShown)
			}
		}
		d = d.restart()
		n.wantValues(map[string]string{"replica-0": "2", "replica-1": "1"}, first, second)
		third := n.replica("replica-2", configMap("web"))
		d.publish(third)
		n.wantValues(map[string]string{"replica-2": "1"}, third)

		e.Threshold = 1
		n.cluster.stabilize(web, e, "a", "1")
		n.wantValues(map[string]string{"replica-0": "2", "replica-1": "2", "replica-2": "2"}, first, second, third)
		n.seen.forget()
		n.cluster.stabilize(web, release.Exposure{}, "a", "2")
		n.wantValues(map[string]string{"replica-0": "2", "replica-1": "2", "replica-2": "2"}, first, second, third)
		wantSame(n, "syncs that wrote after the promotion", 0, n.seen.results()[volume.ResultWritten])

		e = release.Exposure{Digest: n.cluster.edit(web, "a", "3"), Threshold: 1}
		n.cluster.stabilize(web, e, "a", "2")
		n.wantValues(map[string]string{"replica-0": "3", "replica-1": "3", "replica-2": "3"}, first, second, third)
		e.Threshold, e.State = 0, release.Reverted
		n.cluster.stabilize(web, e, "a", "2")
		n.wantValues(map[string]string{"replica-0": "2", "replica-1": "2", "replica-2": "2"}, first, second, third)
		e.Threshold = 1
		n.cluster.stabilize(web, e, "a", "2")
		n.cluster.edit(web, "a", "4") // There is no report about this one.
		n.wantValues(map[string]string{"replica-0": "2", "replica-1": "2", "replica-2": "2"}, first, second, third)
	})
}

// TestWithoutAStableCopy pods have what the object has: nobody has begun to release it. From its first
// copy on they do not, even while somebody deletes that.
func TestWithoutAStableCopy(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.edit(web, "a", "1")
		_, r := n.live(configMap("web"))
		n.wantFiles(r, map[string]string{"a": "1"})
		n.cluster.edit(web, "a", "2")
		n.wantValues(map[string]string{"app": "2"}, r)
		n.cluster.stabilize(web, release.Exposure{}, "a", "2")
		n.wantValues(map[string]string{"app": "2"}, r)
		n.cluster.remove(webStable)
		n.cluster.edit(web, "a", "3")
		n.wantValues(map[string]string{"app": "2"}, r)
		n.wantProblem(r, "configmap default/web.stable cannot be read: it was deleted; the controller creates it again")
		n.cluster.stabilize(web, release.Exposure{}, "a", "2")
		n.wantValues(map[string]string{"app": "2"}, r)
		n.wantProblem(r, "")
	})
}

// TestTheEndOfReleases: without the annotation an object is as any other, and its copy is not watched.
func TestTheEndOfReleases(t *testing.T) {
	bubble(t, func(n *node) {
		_, first, second := n.released()
		wantSame(n, "users of objects", map[api.Ref]int{web: 2, webStable: 2}, n.cluster.users())
		n.cluster.edit(web, "a", "2")
		n.cluster.set(web, "a", "3")
		n.wantValues(map[string]string{"replica-0": "3", "replica-1": "3"}, first, second)
		wantSame(n, "users of objects", map[api.Ref]int{web: 2}, n.cluster.users())
		n.cluster.edit(web, "a", "4")
		n.wantValues(map[string]string{"replica-0": "1", "replica-1": "1"}, first, second)
	})
}

// TestACopyThatCannotBeRead keeps the files of live volumes, and a new volume waits for it.
func TestACopyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil   func(c *cluster)
		problem string
		kind    volume.Kind
	}{
		"nobody answers": {
			func(c *cluster) { c.fail(webStable, errors.New("connection refused")) },
			"configmap default/web.stable cannot be read: connection refused", volume.NotReady,
		},
		"access is denied": {
			func(c *cluster) { c.fail(webStable, forbidden(webStable)) },
			"configmap default/web.stable cannot be read: " + forbidden(webStable).Error() + driversRights("default"), volume.Denied,
		},
		"an object that is no copy": {
			func(c *cluster) { c.set(webStable, "a", "5") },
			"configmap default/web.stable cannot be read: it has the name of the stable copy of web, but not the label " +
				"liveconfig.internal/stable-of: web; rename or delete it", volume.NotReady,
		},
	}
	for name, tc := range tests {
		bubbleCase(t, name, func(n *node) {
			d, first, second := n.released()
			n.cluster.edit(web, "a", "2")
			tc.spoil(n.cluster)
			n.wantValues(map[string]string{"replica-0": "1", "replica-1": "1"}, first, second)
			n.wantProblem(first, tc.problem)
			d = d.restart()
			n.wantValues(map[string]string{"replica-0": "1", "replica-1": "1"}, first, second)
			late := n.replica("late", configMap("web"))
			err := d.Publish(n.ctx, late, access.Token{})
			if e, ok := errors.AsType[*volume.Error](err); !ok || e.Kind != tc.kind || !strings.Contains(err.Error(), "web.stable cannot be read") {
				n.Errorf("Publish() = %v, want an error of kind %s that names the copy", err, tc.kind)
			}
			n.cluster.fail(webStable, nil)
			n.cluster.stabilize(web, release.Exposure{}, "a", "1")
			pass(settling)
			d.publish(late)
			n.wantValues(map[string]string{"replica-0": "1", "replica-1": "1", "late": "1"}, first, second, late)
			n.wantProblem(first, "")
		})
	}
}

// TestPodsThatShareFilesFromBefore get an edit together, when all of them are exposed: their files were
// one file system before the object was released.
func TestPodsThatShareFilesFromBefore(t *testing.T) {
	bubbleShared(t, func(n *node) {
		d, _ := n.ready()
		all := d.replicas(2, configMap("web"))
		n.wantShared(all...)
		n.cluster.edit(web, "a", "1")
		n.cluster.stabilize(web, release.Exposure{}, "a", "1")
		pass(settling)
		newcomer := n.replica("replica-2", configMap("web"))
		d.publish(newcomer)
		n.wantAlone(newcomer, all[0], all[1])
		e := release.Exposure{Digest: n.cluster.edit(web, "a", "2"), Pods: []string{all[0].Pod.UID, newcomer.Pod.UID}}
		n.cluster.stabilize(web, e, "a", "1")
		n.wantValues(map[string]string{"replica-0": "1", "replica-1": "1", "replica-2": "2"}, append(all, newcomer)...)
		e.Pods = append(e.Pods, all[1].Pod.UID)
		n.cluster.stabilize(web, e, "a", "1")
		n.wantValues(map[string]string{"replica-0": "2", "replica-1": "2", "replica-2": "2"}, append(all, newcomer)...)
	})
}

// TestObjectsThatAreReleasedTogether are shown to a pod together, whichever news comes first.
func TestObjectsThatAreReleasedTogether(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.releasedTogether()
		want := func(web, other string) {
			n.Helper()
			pass(settling)
			n.wantBoth(r, web, other)
		}
		digests := map[api.Ref]string{web: n.cluster.edit(web, "web", "2"), other: n.cluster.edit(other, "other", "2")}
		with := map[string]string{release.NameOf(web): "12", release.NameOf(other): "13"}
		exposure := func(ref api.Ref, threshold float64) release.Exposure {
			return release.Exposure{Digest: digests[ref], With: with, Threshold: threshold}
		}
		n.cluster.stabilize(web, exposure(web, 1), "web", "1")
		want("1", "1")
		n.cluster.stabilize(other, exposure(other, 1), "other", "1")
		want("2", "2")
		n.cluster.stabilize(other, exposure(other, 0), "other", "1") // The first to be reverted.
		want("1", "1")
		n.cluster.stabilize(other, exposure(other, 1), "other", "1")
		n.cluster.promoteTogether(web, exposure(web, 1), "web", "2") // The first to be promoted.
		want("2", "2")
		d.restart()
		want("2", "2")
		n.cluster.stabilize(other, release.Exposure{}, "other", "2")
		want("2", "2")
	})
}

// releasedTogether sets up a volume of the ConfigMaps web and other, which are of one group and have 1.
func (n *node) releasedTogether() (d *driver, r state.Record) {
	n.Helper()
	for _, ref := range []api.Ref{web, other} {
		n.cluster.edit(ref, ref.Name, "1")
		n.cluster.stabilize(ref, release.Exposure{}, ref.Name, "1")
	}
	d, r = n.live(sources("{configMap: {name: web}}, {configMap: {name: other}}"))
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

// TestCopiesThatNeverAgree keep a volume from changing once, and for a while: a copy was written by hand, or
// was promoted alone by an earlier version of the controller. After a minute that is its problem. Each step of
// the next release reaches the volume at once, and so does the revert.
func TestCopiesThatNeverAgree(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.releasedTogether()
		n.cluster.fail(other, errAway)
		pass(latency)
		n.cluster.promoteTogether(web, together("2", 1)[web], web.Name, "2")
		n.cluster.fail(other, nil) // Its problem is over, whatever keeps the files from changing now.
		over := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		n.wantBoth(r, "1", "1")
		pass(time.Minute)
		n.wantProblem(r, "the stable copies of configmap default/web and configmap default/other were promoted by different releases; "+
			"the files change when one release has promoted both, or at "+over+": see kubectl liveconfig release status")
		pass(8 * time.Minute)
		n.wantBoth(r, "1", "1")
		pass(time.Minute)
		n.wantBoth(r, "2", "1")
		n.wantProblem(r, "")
		n.cluster.edit(web, web.Name, "3")
		n.cluster.edit(other, other.Name, "3")
		for _, step := range []struct {
			threshold    float64
			web, ofOther string
		}{{0, "2", "1"}, {1, "3", "3"}, {0, "2", "1"}} {
			for ref, e := range together("3", step.threshold) {
				n.cluster.stabilize(ref, e, ref.Name, map[api.Ref]string{web: "2", other: "1"}[ref])
			}
			n.wantBoth(r, step.web, step.ofOther)
		}
	})
}

// TestANewPodDuringAPromotion has no half of a group: it waits until both objects are promoted. Where that does not happen, for
// instance because somebody has written a copy by hand, it starts after a minute.
func TestANewPodDuringAPromotion(t *testing.T) {
	bubble(t, func(n *node) {
		d, first := n.releasedTogether()
		attributes := sources("{configMap: {name: web}}, {configMap: {name: other}}")
		n.cluster.promoteTogether(web, together("2", 1)[web], web.Name, "2")
		r := n.replica("waits", attributes)
		published := d.publishing(r)
		pass(5 * time.Second)
		select {
		case err := <-published:
			n.Fatalf("Publish() = %v while the promotion is half done, want that it waits", err)
		default:
		}
		n.cluster.promoteTogether(other, together("2", 1)[other], other.Name, "2")
		if err := <-published; err != nil {
			n.Fatalf("Publish() = %v after the promotion", err)
		}
		n.wantBoth(r, "2", "2")
		n.wantBoth(first, "2", "2")

		n.cluster.promoteTogether(web, together("3", 1)[web], web.Name, "3")
		late := n.replica("late", attributes)
		for range 5 { // As the kubelet does.
			d.wantRefused(late, volume.NotReady, "the stable copies of configmap default/web and configmap default/other were promoted "+
				"by different releases; a new pod waits for at most 1m0s until both are of one: see kubectl liveconfig release status")
			pass(2 * time.Second)
		}
		pass(10 * time.Second)
		d.publish(late)
		n.wantBoth(late, "3", "2")
		n.wantBoth(first, "2", "2")
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
		_, r := n.live(sources("{configMap: {name: web}}, {configMap: {name: other, namespace: elsewhere}}"))
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
		n.cluster.stabilize(other, release.Exposure{}, other.Name, "3") // It was promoted with no other.
		n.wantBoth(r, "2", "3")
	})
}

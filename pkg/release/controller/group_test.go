package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

const groupSettings = "{group: g, steps: [1], pause: 1h}"

// newGroup returns a controller with a group of two objects, whose edit is not shown yet, and an
// object that joins the group meanwhile.
func newGroup(t *testing.T, name, annotation string) *fixture {
	t.Helper()
	f := newFixture(t, aPod{"one", "x", "1", false, volumes(map[string]string{"sources": "[{configMap: {name: b}}, {configMap: {name: c}}]"})})
	f.set("b", groupSettings, "1")
	f.set("c", groupSettings, "1")
	f.until("there are stable copies", func() bool { return f.hasCopy("b") && f.hasCopy("c") })
	f.set(name, annotation, "1")
	f.until("the mistake is reported", func() bool { return f.count(ReasonMistake) > 0 })
	return f
}

// TestAMistakeOfAGroup keeps edits of the others back for a while. The others report which does.
func TestAMistakeOfAGroup(t *testing.T) {
	t.Parallel()
	for name, annotation := range map[string]string{
		"a mistake":   "{group: g, step: [1]}",
		"other steps": "{group: g, steps: [5], pause: 1s}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newGroup(t, "a", annotation)
			f.set("b", groupSettings, "2")
			for range 20 {
				f.reconcile()
			}
			if e := f.exposure("b"); e.Step != 0 {
				t.Errorf("the exposure is %v at once, want none", e)
			}
			if got := f.count(ReasonBlocked + " No edit of the group reaches more pods while configmap/a cannot be released"); got != 2 {
				t.Errorf("%d Events name the object that keeps the others back, want 2: %q", got, f.texts)
			}
			f.c.reports.wrong[api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: "a"}] = time.Now().Add(-blockedTime)
			f.until("the others go on", func() bool { return f.exposure("b").Step == 1 })
		})
	}
}

// TestAMistakeOfAnObjectThatIsReleased keeps the others back until it is corrected: no pod has half
// of what is released together.
func TestAMistakeOfAnObjectThatIsReleased(t *testing.T) {
	t.Parallel()
	f := newGroup(t, "c", "{group: g, step: [1]}")
	f.set("c", groupSettings, "2")
	f.set("b", groupSettings, "2")
	f.until("a step has begun", func() bool { return f.exposure("b").Step == 1 && f.exposure("c").Step == 1 })
	f.set("c", "{group: g, step: [2]}", "2")
	f.reconcile()
	f.c.reports.wrong[api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: "c"}] = time.Now().Add(-time.Hour)
	f.set("b", groupSettings, "3")
	for range 20 {
		f.reconcile()
	}
	if e := f.exposure("b"); e.Digest == release.Digest(map[string][]byte{"a": []byte("3")}) {
		t.Errorf("the exposure is %v, want none of the newer edit", e)
	}
}

// TestSeniority: the object that has been released for the longest time decides about a group.
func TestSeniority(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.set("z", groupSettings, "1")
	f.until("there is a stable copy", func() bool { return f.hasCopy("z") })
	for i := range release.MostMembers {
		f.set(fmt.Sprint("a", i), groupSettings, "1")
	}
	f.reconcile()
	members, err := f.c.members(f.ctx, unit{namespace: "n", group: "g"})
	if err != nil || len(members) != release.MostMembers+1 {
		t.Fatalf("%d members, %v", len(members), err)
	}
	wrong := slices.IndexFunc(members, (*member).isWrong)
	if members[0].ref().Name != "z" || wrong != release.MostMembers {
		t.Errorf("the first member is %s, and member %d is wrong, want z and the last one", members[0].ref().Name, wrong)
	}
}

// TestOrderOfNames: the copies of a group are written in the order of their names, whichever is the oldest.
func TestOrderOfNames(t *testing.T) {
	t.Parallel()
	const grouped = "{group: g, steps: [], pause: 0s}"
	f := newFixture(t)
	for _, name := range []string{"b", "c"} {
		f.set(name, grouped, "1")
	}
	f.until("there are stable copies", func() bool { return f.hasCopy("b") && f.hasCopy("c") })
	b := f.object("b" + release.Suffix)
	b.CreationTimestamp, b.ResourceVersion = metav1.NewTime(epoch), "newer"
	f.update(b)
	f.client.ClearActions()
	for _, name := range []string{"b", "c"} {
		f.set(name, grouped, "3")
	}
	f.until("both are promoted", func() bool { return f.has("b", "3") && f.has("c", "3") })
	var written []string
	for _, a := range f.client.Actions() {
		p, ok := a.(k8stesting.PatchAction)
		if ok && strings.HasSuffix(p.GetName(), release.Suffix) && strings.Contains(string(p.GetPatch()), `"/data"`) {
			written = append(written, p.GetName())
		}
	}
	if diff := cmp.Diff([]string{"b.stable", "c.stable"}, written); diff != "" {
		t.Errorf("the copies that were promoted (-want +got):\n%s", diff)
	}
}

// TestRequestsOfANamespace are limited: beyond that its units wait, and those of others do not.
func TestRequestsOfANamespace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.c.requests = fairqueue.NewAllowance(1, 10)
	f.set("web", "", "1")
	f.reconcile()
	if _, err := f.client.CoreV1().ConfigMaps("n").Get(f.ctx, "web"+release.Suffix, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if left := f.c.requests.Left("n"); left > 8 {
		t.Errorf("%g requests of 10 are left, want what was read and written to be charged", left)
	}
	for range 20 {
		f.c.requests.Spend("n")
	}
	noisy := unit{namespace: "n", alone: api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: "web"}}
	before := len(f.client.Actions())
	if err := f.c.work(f.ctx, noisy); err != nil || len(f.client.Actions()) != before || f.c.queue.Len() != 0 {
		t.Error("a unit of a namespace in debt is worked on")
	}
}

// TestACopyThatIsCreatedAgain agrees with those of its group about what was promoted together. Else
// drivers would take one of them for older than the other.
func TestACopyThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.set("b", groupSettings, "1")
	f.set("c", groupSettings, "1")
	f.until("there are stable copies", func() bool { return f.hasCopy("b") && f.hasCopy("c") })
	maps := f.client.CoreV1().ConfigMaps("n")
	copied, err := maps.Get(f.ctx, "b"+release.Suffix, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nameOf := func(name string) string {
		return release.NameOf(api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: name})
	}
	copied.ResourceVersion = "2"
	copied.Annotations = map[string]string{release.PartnersAnnotation: release.Partners{nameOf("c"): "an earlier release"}.String()}
	if _, err := maps.Update(f.ctx, copied, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(f.ctx, "c"+release.Suffix, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until("there is a copy again", func() bool { return f.hasCopy("c") })
	again, err := maps.Get(f.ctx, "c"+release.Suffix, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := release.ParsePartners(again.Annotations[release.PartnersAnnotation])[nameOf("b")]; got != "an earlier release" {
		t.Errorf("the copy names %q for its partner, want what that names", got)
	}
}

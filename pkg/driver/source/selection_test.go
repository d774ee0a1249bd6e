package source_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// ofShop are the objects with the label team=web in the namespace shop.
var ofShop = api.Ref{Kind: api.ConfigMap, Namespace: "shop"}

func (b *bench) selection(ref api.Ref) source.Key {
	return source.Key{Identity: b.id, Ref: ref, Selector: "team=web"}
}

// selectAll takes the selection, and settles.
func (b *bench) selectAll(ref api.Ref) (giveBack func()) {
	b.t.Helper()
	giveBack, err := b.Acquire(b.selection(ref))
	if err != nil {
		b.t.Fatal(err)
	}
	b.settle()
	return giveBack
}

// wantMembers compares the members, each as its name and the value of its key «k», and the number of
// changes since the last time.
func (b *bench) wantMembers(ref api.Ref, changes int, want ...string) {
	b.t.Helper()
	b.settle()
	s := b.Get(b.selection(ref))
	var got []string
	for _, m := range s.Members {
		got = append(got, m.Content.Ref.Namespace+"/"+m.Content.Ref.Name+"="+string(m.Content.Data["k"]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("members (-want +got):\n%s", diff)
	}
	if s.Found != (len(want) > 0) || !s.Synced {
		b.t.Errorf("Found = %t and Synced = %t with %d members", s.Found, s.Synced, len(want))
	}
	b.wantChangesOf(b.selection(ref), changes)
}

func (b *bench) problem(ref api.Ref) error { return b.Get(b.selection(ref)).Err }

func TestSelectionFollowsItsObjects(t *testing.T) {
	bubble(t, func(b *bench) {
		b.Put(labelled("shop", "a", "web", "1"))
		b.Put(labelled("shop", "other", "db", "1"))
		b.Put(labelled("elsewhere", "a", "web", "1"))
		b.selectAll(ofShop)
		b.wantMembers(ofShop, 1, "shop/a=1")
		b.Put(labelled("shop", "b", "web", "1"))
		b.wantMembers(ofShop, 1, "shop/a=1", "shop/b=1")
		b.Put(labelled("shop", "a", "web", "2"))
		b.wantMembers(ofShop, 1, "shop/a=2", "shop/b=1")
		b.Put(labelled("shop", "other", "web", "1"))
		b.wantMembers(ofShop, 1, "shop/a=2", "shop/b=1", "shop/other=1")
		b.Put(labelled("elsewhere", "b", "web", "1"))
		b.wantMembers(ofShop, 0, "shop/a=2", "shop/b=1", "shop/other=1")
	})
}

func TestSelectionInAllNamespaces(t *testing.T) {
	bubble(t, func(b *bench) {
		all := api.Ref{Kind: api.ConfigMap}
		b.Put(labelled("shop", "a", "web", "1"))
		b.selectAll(all)
		b.Put(labelled("billing", "a", "web", "2"))
		b.wantMembers(all, 2, "billing/a=2", "shop/a=1")
	})
}

// TestMembersAreInTheOrderOfTheirAge, which decides about equal paths.
func TestMembersAreInTheOrderOfTheirAge(t *testing.T) {
	bubble(t, func(b *bench) {
		old := labelled("shop", "z", "web", "1")
		old.CreationTimestamp = metav1.NewTime(time.Unix(1_600_000_000, 0))
		old.Annotations = map[string]string{
			"folder": "x", "long": strings.Repeat("y", 10_000), "kubectl.kubernetes.io/last-applied-configuration": "{}",
		}
		b.Put(labelled("shop", "b", "web", "1"))
		b.Put(labelled("shop", "a", "web", "1"))
		b.Put(old)
		b.selectAll(ofShop)
		b.wantMembers(ofShop, 1, "shop/z=1", "shop/a=1", "shop/b=1")
		got := b.Get(b.selection(ofShop)).Members[0]
		want := map[string]string{"folder": "x", "long": strings.Repeat("y", 4097)}
		if diff := cmp.Diff(want, got.Annotations); diff != "" || !got.Created.Equal(old.CreationTimestamp.Time) {
			t.Errorf("created %v, annotations (-want +got):\n%s", got.Created, diff)
		}
	})
}

// TestAnObjectLeavesASelection: a lost label counts at once, a deletion after a while, because
// somebody may be replacing the object.
func TestAnObjectLeavesASelection(t *testing.T) {
	bubble(t, func(b *bench) {
		for _, name := range []string{"a", "b", "c"} {
			b.Put(labelled("shop", name, "web", "1"))
		}
		b.selectAll(ofShop)
		b.wantMembers(ofShop, 1, "shop/a=1", "shop/b=1", "shop/c=1")
		b.Put(labelled("shop", "a", "db", "1"))
		b.wantMembers(ofShop, 1, "shop/b=1", "shop/c=1")
		b.Remove(api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "b"})
		b.wantMembers(ofShop, 0, "shop/b=1", "shop/c=1")
		if m := b.Get(b.selection(ofShop)).Members; m[0].Gone.IsZero() || !m[1].Gone.IsZero() {
			t.Errorf("gone since %v and %v, want only the first one gone", m[0].Gone, m[1].Gone)
		}
		pass(source.AbsenceTime - time.Millisecond)
		b.wantMembers(ofShop, 0, "shop/b=1", "shop/c=1")
		pass(time.Millisecond)
		b.wantMembers(ofShop, 1, "shop/c=1")
		b.Remove(api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "c"})
		b.Put(labelled("shop", "c", "web", "2"))
		b.wantMembers(ofShop, 1, "shop/c=2")
		pass(2 * source.AbsenceTime)
		b.wantMembers(ofShop, 0, "shop/c=2")
	})
}

// TestManyLeaveASelection: few of them are asked about, the others count as deleted.
func TestManyLeaveASelection(t *testing.T) {
	bubble(t, func(b *bench) {
		const many = 50
		for i := range many {
			b.Put(labelled("shop", fmt.Sprintf("o-%02d", i), "web", "1"))
		}
		b.selectAll(ofShop)
		for i := range many {
			b.Put(labelled("shop", fmt.Sprintf("o-%02d", i), "db", "1"))
		}
		b.settle()
		asked := 0
		for _, r := range b.All() {
			if r.Verb == "list" && r.Ref.Name != "" {
				asked++
			}
		}
		if asked != 10 {
			t.Errorf("%d objects were asked about, want 10", asked)
		}
		b.wantCount(ofShop, many-10)
		pass(source.AbsenceTime)
		b.wantCount(ofShop, 0)
	})
}

// TestAListLacksSomeOfManyMembers: these go after a while, as if each deletion had been seen.
func TestAListLacksSomeOfManyMembers(t *testing.T) {
	bubble(t, func(b *bench) {
		const many = 40
		for i := range many {
			b.Put(labelled("shop", fmt.Sprintf("o-%02d", i), "web", "1"))
		}
		b.selectAll(ofShop)
		b.Answer(errors.New("away"), errors.New("away"))
		b.Cut()
		pass(10 * time.Second)
		for i := range many / 2 {
			b.Remove(api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: fmt.Sprintf("o-%02d", 2*i)})
		}
		b.Compact()
		b.Answer(nil, nil)
		for len(b.gone()) == 0 {
			pass(100 * time.Millisecond)
		}
		b.wantCount(ofShop, many)
		if got := len(b.gone()); got != many/2 {
			t.Errorf("%d members are gone, want %d", got, many/2)
		}
		pass(source.AbsenceTime)
		b.wantCount(ofShop, many/2)
	})
}

// gone returns the members of ofShop that are gone, and still count.
func (b *bench) gone() []source.Member {
	b.settle()
	return slices.DeleteFunc(slices.Clone(b.Get(b.selection(ofShop)).Members), func(m source.Member) bool { return m.Gone.IsZero() })
}

func (b *bench) wantCount(ref api.Ref, want int) {
	b.t.Helper()
	b.settle()
	if got := len(b.Get(b.selection(ref)).Members); got != want {
		b.t.Errorf("%d members, want %d", got, want)
	}
}

// TestStableCopiesNeverMatch although they have the labels of their object.
func TestStableCopiesNeverMatch(t *testing.T) {
	bubble(t, func(b *bench) {
		b.Put(labelled("shop", "a", "web", "1"))
		copied := labelled("shop", "a.stable", "web", "0")
		copied.Labels["liveconfig.internal/stable-of"] = "a"
		b.Put(copied)
		b.selectAll(ofShop)
		b.wantMembers(ofShop, 1, "shop/a=1")
		copied = copied.DeepCopy()
		copied.Data["k"] = "1"
		b.Put(copied)
		b.wantMembers(ofShop, 0, "shop/a=1")
	})
}

func TestSelectionsAreShared(t *testing.T) {
	bubble(t, func(b *bench) {
		first, second := b.selectAll(ofShop), b.selectAll(ofShop)
		b.wantWatches(ofShop, 1, 1)
		first()
		b.wantWatches(ofShop, 1, 1)
		second()
		b.wantWatches(ofShop, 0, 0)
		if used := b.room.Used(); used != 0 {
			t.Errorf("%d bytes of room are used by nothing", used)
		}
	})
}

// TestSelectionAfterTrouble: nothing is missed, and nothing is dropped meanwhile.
func TestSelectionAfterTrouble(t *testing.T) {
	change := func(b *bench) {
		b.Put(labelled("shop", "a", "db", "1"))
		b.Put(labelled("shop", "b", "web", "2"))
		b.Put(labelled("shop", "c", "web", "1"))
	}
	each(t, identity.Driver(), map[string]func(*bench){
		"the watch ends": func(b *bench) { b.Cut(); change(b) },
		"the version has expired": func(b *bench) {
			b.Cut()
			change(b)
			b.Compact()
		},
		"the server is away": func(b *bench) {
			b.Answer(errors.New("away"), errors.New("away"))
			b.Cut()
			change(b)
			pass(time.Minute)
			b.wantCount(ofShop, 2)
			b.Answer(nil, nil)
		},
		"the watch is dead": func(b *bench) {
			b.Deaden(ofShop)
			change(b)
			b.PassInOrder(3 * time.Hour)
		},
	}, func(b *bench, trouble func(*bench)) {
		b.Put(labelled("shop", "a", "web", "1"))
		b.Put(labelled("shop", "b", "web", "1"))
		b.selectAll(ofShop)
		trouble(b)
		pass(20 * time.Second)
		b.Set(func() { b.changes = nil })
		b.wantMembers(ofShop, 0, "shop/b=2", "shop/c=1")
		if err := b.problem(ofShop); err != nil {
			b.t.Errorf("problem = %v, want none", err)
		}
	})
}

// TestRightsToASelectionAreLost: the members stay until the denial is sure, and then it is shown.
func TestRightsToASelectionAreLost(t *testing.T) {
	bubbleOf(t, identity.Of(api.Pod{Namespace: "default", ServiceAccount: "runner"}), func(b *bench) {
		b.Put(labelled("shop", "a", "web", "1"))
		b.selectAll(ofShop)
		denied := apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no"))
		b.Answer(denied, denied)
		b.Cut()
		pass(time.Minute)
		s := b.Get(b.selection(ofShop))
		if len(s.Members) != 1 || !apierrors.IsForbidden(s.Err) || s.Revoked {
			t.Errorf("%d members, problem %v, revoked %t, want one, a denial, and it does not count yet",
				len(s.Members), s.Err, s.Revoked)
		}
		pass(2 * recheck)
		if s := b.Get(b.selection(ofShop)); len(s.Members) != 1 || !s.Revoked {
			t.Errorf("%d members, revoked %t, want one, and that access is revoked", len(s.Members), s.Revoked)
		}
		b.Answer(nil, nil)
		b.Put(labelled("shop", "b", "web", "1"))
		pass(time.Minute)
		if s := b.Get(b.selection(ofShop)); len(s.Members) != 2 || s.Revoked || s.Err != nil {
			t.Errorf("%d members, problem %v, want two and none", len(s.Members), s.Err)
		}
	})
}

// TestAListExpiresBetweenPages: it begins again.
func TestAListExpiresBetweenPages(t *testing.T) {
	bubble(t, func(b *bench) {
		for i := range 150 {
			b.Put(labelled("shop", fmt.Sprintf("o-%03d", i), "web", "1"))
		}
		b.FailPages(apierrors.NewResourceExpired("the continue token is too old"))
		b.selectAll(ofShop)
		if s := b.Get(b.selection(ofShop)); s.Synced || !apierrors.IsResourceExpired(s.Err) {
			t.Errorf("synced %t, problem %v, want not synced, and that it has expired", s.Synced, s.Err)
		}
		b.FailPages(nil)
		pass(10 * time.Second)
		b.wantCount(ofShop, 150)
	})
}

// labelled returns a config map with the label team and a value of its key «k».
func labelled(namespace, name, team, value string) *corev1.ConfigMap {
	o := configMap(api.Ref{Kind: api.ConfigMap, Namespace: namespace, Name: name}, value)
	o.Labels = map[string]string{"team": team}
	o.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000, 0))
	return o
}

package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// TestCopiesThatDisagree get what one of them has missed, or are accepted as they are, unless a release or an undo is under way.
func TestCopiesThatDisagree(t *testing.T) {
	t.Parallel()
	const grouped = "{group: g, steps: [], pause: 0s}"
	for name, tt := range map[string]disagreement{
		"one has missed the promotion, and has a newer edit": {
			func(f *fixture) { f.set("c", "{group: g, steps: [1], pause: 1h}", "3"); f.unpromote("c") },
			false,
		},
		"one has missed the promotion, and has left the group": {
			func(f *fixture) { f.set("c", "{steps: [1], pause: 1h}", "3"); f.unpromote("c") },
			false,
		},
		"one was written by hand": {
			func(f *fixture) {
				f.annotate(stable.AnnotatePartner(f.object("c.stable").Annotations, "configmap/b", "other"))
			},
			false,
		},
		"one names no release": {
			func(f *fixture) {
				f.annotate(stable.AnnotatePartner(f.object("c.stable").Annotations, "configmap/b", ""))
			},
			false,
		},
		"one names no release, and has a newer edit": {
			func(f *fixture) {
				f.set("c", "{group: g, steps: [1], pause: 1h}", "3")
				f.annotate(stable.AnnotatePartner(f.object("c.stable").Annotations, "configmap/b", ""))
			},
			false,
		},
		"one names no release, and has left the group and an edit that was taken back": {
			func(f *fixture) {
				f.set("c", "{steps: [1], pause: 1h}", "3")
				c := stable.AnnotatePartner(f.object("c.stable").Annotations, "configmap/b", "")
				f.annotate(stable.Annotate(c, release.Exposure{Digest: digestOfA("3"), State: release.Reverted, Since: epoch, Reason: "bad"}))
			},
			false,
		},
		"an undo is under way":                           {(*fixture).undoB, true},
		"an undo is under way, and metadata are edited":  undoneWhile(func(f *fixture) { f.set("c", grouped, "2") }),
		"an undo is under way, and settings are edited":  undoneWhile(func(f *fixture) { f.set("c", "{group: g, steps: [1], pause: 1h}", "2") }),
		"an undo is under way, and the object is edited": undoneWhile(func(f *fixture) { f.set("c", "{group: g, steps: [1], pause: 1h}", "3") }),
		"an undo is under way, and both are edited":      undoneWhile(func(f *fixture) { f.set("b", "{group: g, steps: [1], pause: 1h}", "3"); f.set("c", grouped, "2") }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for _, value := range []string{"1", "2"} {
				f.set("b", grouped, value)
				f.set("c", grouped, value)
				f.until("contents are kept", func() bool { return f.keeps("b", value)() && f.keeps("c", value)() })
			}
			tt.disturb(f)
			agree := func() bool { return f.partners("b")["configmap/c"] == f.partners("c")["configmap/b"] }
			if tt.waits {
				for range 10 {
					f.reconcile()
				}
				if agree() {
					t.Error("the copies agree although an undo is under way")
				}
			} else {
				f.until("the copies agree", agree)
			}
			want := map[string]string{"b": "2", "c": "2"}
			if tt.waits {
				want["b"] = "1"
			}
			got := map[string]string{}
			for name := range want {
				got[name] = f.object(name + release.Suffix).Data["a"]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("stable contents (-want +got):\n%s", diff)
			}
		})
	}
}

// disagreement is what happens to copies, and whether they go on disagreeing because b is undone.
type disagreement struct {
	disturb func(f *fixture)
	waits   bool
}

// undoneWhile is an undo that is half written when something else happens.
func undoneWhile(do func(f *fixture)) disagreement {
	return disagreement{func(f *fixture) { f.undoB(); f.reconcile(); do(f) }, true}
}

// undoB writes the first of the two copies as an undo does.
func (f *fixture) undoB() {
	f.Helper()
	b := f.object("b.stable")
	e := release.Exposure{
		Digest: digestOfA("2"), State: release.Reverted, Since: time.Now(), Reason: "undone",
		With: map[string]string{release.Undone: "x", "configmap/b": f.object("b").ResourceVersion, "configmap/c": f.object("c").ResourceVersion},
	}
	b.Annotations = stable.AnnotateUndone(b.Annotations, e, map[string]string{"configmap/b": "1", "configmap/c": "1"})
	b.Data["a"], b.ResourceVersion = "1", "undone"
	f.update(b)
}

// TestCopiesThatMayNotBeSettled stop no work on their unit, and are settled when that is allowed.
func TestCopiesThatMayNotBeSettled(t *testing.T) {
	t.Parallel()
	const grouped = "{group: g, steps: [], pause: 0s}"
	f := newFixture(t)
	for _, value := range []string{"1", "2"} {
		f.set("b", grouped, value)
		f.set("c", grouped, value)
		f.until("contents are kept", func() bool { return f.keeps("b", value)() && f.keeps("c", value)() })
	}
	isDenied, denials := true, 0
	f.client.PrependReactor("patch", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
		name := a.(k8stesting.PatchAction).GetName()
		if !isDenied {
			return false, nil, nil
		}
		denials++
		return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), name, errors.New("denied by a policy"))
	})
	f.annotate(stable.AnnotatePartner(f.object("c.stable").Annotations, "configmap/b", "other"))
	f.until("a write is denied", func() bool { return denials > 0 }) // An error of the unit would end the test.
	isDenied = false
	f.until("the copies agree", func() bool { return f.partners("b")["configmap/c"] == f.partners("c")["configmap/b"] })
}

// unpromote has a copy be as it was before it was promoted together with the others, which is not known to have happened.
func (f *fixture) unpromote(name string) {
	f.Helper()
	f.unconfirm(name)
	m := f.object(name + release.Suffix)
	m.Annotations, m.Data["a"], m.ResourceVersion = map[string]string{}, "1", "unpromoted"
	f.update(m)
}

// annotate writes the annotations of the copy of c.
func (f *fixture) annotate(annotations map[string]string) {
	f.Helper()
	m := f.object("c" + release.Suffix)
	m.Annotations, m.ResourceVersion = annotations, "annotated"
	f.update(m)
}

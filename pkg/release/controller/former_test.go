package controller

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// object returns a ConfigMap; nil for one that does not exist.
func (f *fixture) object(name string) *corev1.ConfigMap {
	f.Helper()
	m, err := f.client.CoreV1().ConfigMaps("n").Get(f.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.Fatal(err)
	}
	return m
}

func (f *fixture) delete(name string) {
	f.Helper()
	if err := f.client.CoreV1().ConfigMaps("n").Delete(f.ctx, name, metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
}

// former returns what is known of former contents.
func (f *fixture) former(name string) (former release.Former) {
	f.Helper()
	if m := f.object(name + release.FormerSuffix); m != nil {
		var err error
		if former, err = release.ParseFormer(m.Annotations[release.FormerAnnotation]); err != nil {
			f.Fatal(err)
		}
	}
	return former
}

func (f *fixture) keeps(name, value string) func() bool {
	return func() bool {
		newest, _ := f.former(name).Newest()
		return newest.Digest == release.Digest(map[string][]byte{"a": []byte(value)}) && newest.Key != ""
	}
}

// TestADeletedCopy is made again from what was stable last, and an edit that was refused or taken back stays so.
func TestADeletedCopy(t *testing.T) {
	t.Parallel()
	web := volumes(map[string]string{"configMap": "web"})
	tests := map[string]struct {
		annotation string
		end        func(f *fixture)
		want       release.State
	}{
		"during a step": {"{steps: [1], pause: 1h}", func(*fixture) {}, release.Progressing},
		"after a revert": {"{steps: [1], pause: 1h}", func(f *fixture) {
			f.notReady("one")
			f.notReady("two")
			f.until("it is reverted", func() bool { return f.exposure("web").State == release.Reverted })
		}, release.Reverted},
		"after a freeze": {"{steps: [1], pause: 1h, onFailure: freeze}", func(f *fixture) {
			f.notReady("one")
			f.notReady("two")
			f.until("it is frozen", func() bool { return f.exposure("web").State == release.Frozen })
		}, release.Frozen},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, aPod{"one", "x", "1", false, web}, aPod{"two", "y", "2", false, web})
			f.set("web", tt.annotation, "good")
			f.until("the content is kept", f.keeps("web", "good"))
			f.set("web", tt.annotation, "bad")
			f.until("a pod has the edit", func() bool { return f.exposure("web").Step == 1 })
			tt.end(f)
			f.until("it is kept how it ended", func() bool {
				_, isEnded := f.former("web").EndOf(release.Digest(map[string][]byte{"a": []byte("bad")}))
				return isEnded == tt.want.IsFinal()
			})
			f.delete("web.stable")
			f.until("there is a copy again", func() bool { return f.hasCopy("web") })
			if got := f.object("web.stable").Data["a"]; got != "good" {
				t.Errorf("the copy has %q, want what was stable", got)
			}
			f.until("the release is as it was", func() bool { return f.exposure("web").State == tt.want })
			if f.count(ReasonPromoted) > 0 {
				t.Errorf("Events: %q, want no promotion", f.texts)
			}
		})
	}
}

// TestFormerContents are the last three, and go with the annotation.
func TestFormerContents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, value := range []string{"1", "2", "3", "4"} {
		f.set("web", "{steps: []}", value)
		f.until("the content is stable, and kept", func() bool {
			m := f.object("web.stable")
			return m != nil && m.Data["a"] == value && f.keeps("web", value)()
		})
	}
	var got []string
	for _, s := range f.former("web").Contents {
		got = append(got, s.Digest)
	}
	var want []string
	for _, value := range []string{"4", "3", "2"} {
		want = append(want, release.Digest(map[string][]byte{"a": []byte(value)}))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kept contents (-want +got):\n%s", diff)
	}
	if got := len(f.object("web.former").BinaryData); got != 3 {
		t.Errorf("%d contents are kept, want 3", got)
	}
	m := f.object("web")
	delete(m.Annotations, release.Annotation)
	m.ResourceVersion = "not released"
	if _, err := f.client.CoreV1().ConfigMaps("n").Update(f.ctx, m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until("copy and contents are gone", func() bool {
		alone := unit{namespace: "n", alone: api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: "web"}}
		if _, err := f.c.reconcile(f.ctx, alone); err != nil {
			t.Fatal(err)
		}
		return !f.hasCopy("web") && f.object("web.former") == nil
	})
}

// TestContentsThatMayNotBeKept stop no release; an Event reports it once.
func TestContentsThatMayNotBeKept(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(f *fixture)
		want    string
	}{
		"a policy is against it": {func(f *fixture) {
			f.client.PrependReactor("create", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
				if m := a.(k8stesting.CreateAction).GetObject().(*corev1.ConfigMap); strings.HasSuffix(m.Name, release.FormerSuffix) {
					return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), m.Name, errors.New("denied by a policy"))
				}
				return false, nil, nil
			})
		}, "denied by a policy"},
		"the name is taken": {func(f *fixture) {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web.former", ResourceVersion: "1"}, Data: map[string]string{"a": "mine"}}
			if _, err := f.client.CoreV1().ConfigMaps("n").Create(f.ctx, m, metav1.CreateOptions{}); err != nil {
				f.Fatal(err)
			}
		}, "rename or delete it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tt.prepare(f)
			for _, value := range []string{"1", "2", "3"} {
				f.set("web", "{steps: []}", value)
				f.until("the edit is stable", func() bool { m := f.object("web.stable"); return m != nil && m.Data["a"] == value })
			}
			f.until("an Event reports it", func() bool { return f.count(ReasonNotKept) > 0 })
			if f.count(ReasonNotKept) != 1 || f.count(tt.want) != 1 {
				t.Errorf("Events: %q, want one with %q", f.texts, tt.want)
			}
			if m := f.object("web.former"); m != nil && m.Data["a"] != "mine" {
				t.Errorf("somebody's object has %v now", m.Data)
			}
		})
	}
}

// TestAnImmutableCopy is replaced when an edit is promoted, and pods get the edit.
func TestAnImmutableCopy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.client.PrependReactor("patch", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
		p := a.(k8stesting.PatchAction)
		if p.GetName() == "web.stable" && strings.Contains(string(p.GetPatch()), `"/data"`) {
			return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), p.GetName(), nil)
		}
		return false, nil, nil
	})
	f.set("web", "{steps: []}", "1")
	f.until("the content is kept", f.keeps("web", "1"))
	m := f.object("web.stable")
	m.Immutable, m.ResourceVersion = new(true), "immutable"
	if _, err := f.client.CoreV1().ConfigMaps("n").Update(f.ctx, m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.set("web", "{steps: []}", "2")
	f.until("the edit is stable", func() bool { m := f.object("web.stable"); return m != nil && m.Data["a"] == "2" && m.Immutable == nil })
}

// TestADeletedCopyOfAGroup is made again so that it fits those of the others, also if what is kept of it is a write behind, and
// if there is a newer edit.
func TestADeletedCopyOfAGroup(t *testing.T) {
	t.Parallel()
	const settings = "{group: g, steps: [], pause: 0s}"
	for name, tt := range map[string]struct {
		prepare func(f *fixture)
		want    string
		state   release.State
	}{
		"after a promotion that is not kept yet":  {func(*fixture) {}, "2", ""},
		"after another edit":                      {func(f *fixture) { f.set("c", settings, "3") }, "2", ""},
		"before the first promotion of the group": {func(f *fixture) { f.demote("b", "c") }, "1", release.Promoting},
		"after the others were taken back": {func(f *fixture) {
			b := f.object("b.stable")
			e := release.Exposure{
				Digest: digestOfA("2"), With: map[string]string{}, State: release.Reverted, Since: epoch, Reason: "undone",
			}
			for _, name := range []string{"b", "c"} {
				e.With["configmap/"+name] = f.object(name).ResourceVersion
			}
			b.Annotations = stable.AnnotateUndone(b.Annotations, e, map[string]string{"configmap/b": "1", "configmap/c": "1"})
			b.Data["a"], b.ResourceVersion = "1", "undone"
			f.update(b)
		}, "1", release.Reverted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.set("b", settings, "1")
			f.set("c", settings, "1")
			f.until("contents are kept", func() bool { return f.keeps("b", "1")() && f.keeps("c", "1")() })
			f.set("b", settings, "2")
			f.set("c", settings, "2")
			f.until("both are promoted", func() bool { return f.has("b", "2") && f.has("c", "2") })
			f.wantKeptFirst()
			f.unconfirm("c")
			tt.prepare(f)
			f.delete("c.stable")
			f.until("there is a copy again", func() bool { return f.hasCopy("c") })
			created := f.created("c.stable")
			if got := created.Data["a"]; got != tt.want {
				t.Errorf("the copy has %q, want %q", got, tt.want)
			}
			e, err := release.ParseExposure(created.Annotations[release.ExposureAnnotation])
			if err != nil || e.State != tt.state {
				t.Errorf("the release is %q (%v), want %q", e.State, err, tt.state)
			}
			b, c := f.partners("b"), f.partners("c")
			if b["configmap/c"] != c["configmap/b"] || b["configmap/c"] == "" && tt.state != release.Promoting {
				t.Errorf("the copies disagree: %v and %v", b, c)
			}
		})
	}
}

// wantKeptFirst checks that the contents of both objects are kept before the first copy has its one.
func (f *fixture) wantKeptFirst() {
	f.Helper()
	written := map[string]int{}
	for i, a := range f.client.Actions() {
		p, isPatch := a.(k8stesting.PatchAction)
		if !isPatch {
			continue
		}
		for _, what := range []string{`"ahead`, `"a":"2"`} {
			if _, isKnown := written[p.GetName()+what]; !isKnown && strings.Contains(strings.ReplaceAll(string(p.GetPatch()), `\`, ""), what) {
				written[p.GetName()+what] = i + 1
			}
		}
	}
	for _, kept := range []string{"b", "c"} {
		for _, promoted := range []string{"b", "c"} {
			at, before := written[kept+`.former"ahead`], written[promoted+`.stable"a":"2"`]
			if at == 0 || before == 0 || at > before {
				f.Errorf("writes: %v, want that %s is kept before %s is promoted", written, kept, promoted)
			}
		}
	}
}

// unconfirm has what is kept of an object be as it was when the newest content was not stable yet.
func (f *fixture) unconfirm(name string) {
	f.Helper()
	former := f.former(name)
	former.Contents[0].IsAhead = true
	m := f.object(name + release.FormerSuffix)
	m.Annotations[release.FormerAnnotation], m.ResourceVersion = former.String(), "a write behind"
	f.update(m)
}

// created returns an object as it was created last.
func (f *fixture) created(name string) (created *corev1.ConfigMap) {
	for _, a := range f.client.Actions() {
		if c, isCreate := a.(k8stesting.CreateAction); isCreate {
			if m, isMap := c.GetObject().(*corev1.ConfigMap); isMap && m.Name == name {
				created = m
			}
		}
	}
	return created
}

func (f *fixture) has(name, value string) bool {
	m := f.object(name + release.Suffix)
	return m != nil && m.Data["a"] == value
}

func (f *fixture) partners(name string) release.Partners {
	return release.ParsePartners(f.object(name + release.Suffix).Annotations[release.PartnersAnnotation])
}

// demote has copies be as they were before they were promoted together.
func (f *fixture) demote(names ...string) {
	e := release.Exposure{Digest: digestOfA("2"), With: map[string]string{}, Threshold: 1, State: release.Promoting, Step: 1, Since: epoch}
	for _, name := range names {
		e.With["configmap/"+name] = f.object(name).ResourceVersion
	}
	for _, name := range names {
		m := f.object(name + release.Suffix)
		m.Annotations = map[string]string{release.ExposureAnnotation: e.String()}
		m.Data["a"], m.ResourceVersion = "1", "demoted"
		f.update(m)
	}
}

func (f *fixture) update(m *corev1.ConfigMap) {
	f.Helper()
	if _, err := f.client.CoreV1().ConfigMaps("n").Update(f.ctx, m, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

func digestOfA(value string) string { return release.Digest(map[string][]byte{"a": []byte(value)}) }

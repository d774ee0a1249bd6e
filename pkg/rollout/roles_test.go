package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// markedAs returns a Secret that is marked as a copy of another, with the digest that its name stands for.
func markedAs(source, name string) *cachedCopy {
	return &cachedCopy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), Annotations: map[string]string{
			copies.SourceAnnotation: "secret/" + source,
			copies.DigestAnnotation: "sha256:" + name[max(0, len(name)-10):] + strings.Repeat("0", 54),
		},
	}}
}

// fooSource is what the caches store of the Secret foo, whose copy has or will have the name.
func fooSource() *cachedSource {
	return &cachedSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foo"}, CopyName: "foo-0000000002"}
}

// TestNamesOf: a rule gets the names of copies of the sources that it names, and nothing else of it changes.
func TestNamesOf(t *testing.T) {
	t.Parallel()
	c := idleController(t)
	add(t, c.caches.sources[api.Secret], fooSource())
	add(t, c.caches.copies[api.Secret], markedAs("foo", "foo-0000000001"), markedAs("foo", "admin")) // Anybody can write the annotation.
	rule := func(resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"get"}}
	}
	for about, test := range map[string]struct {
		annotation string
		rule       rbacv1.PolicyRule
		want       []string
	}{
		"copies and the next one are added":  {"secret/foo", rule("secrets", "foo"), []string{"foo", "foo-0000000001", "foo-0000000002"}},
		"a copy that is gone leaves":         {"secret/foo", rule("secrets", "foo", "foo-00000000ff", "b"), []string{"foo", "b", "foo-0000000001", "foo-0000000002"}},
		"a source with such a name stays":    {"secret/foo,secret/foo-00000000ff", rule("secrets", "foo-00000000ff", "foo"), []string{"foo-00000000ff", "foo", "foo-0000000001", "foo-0000000002"}},
		"a rule that does not name it":       {"secret/foo", rule("secrets", "b"), []string{"b"}},
		"a rule for all":                     {"secret/foo", rule("secrets"), nil},
		"a rule for ConfigMaps":              {"secret/foo", rule("configmaps", "foo"), []string{"foo"}},
		"a source that the Role has not got": {"secret/b", rule("secrets", "foo", "b"), []string{"foo", "b"}},
		"a Role without the annotation":      {"", rule("secrets", "foo"), []string{"foo"}},
	} {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Rules: []rbacv1.PolicyRule{test.rule}}
		if test.annotation != "" {
			role.Annotations = map[string]string{copies.OfAnnotation: test.annotation}
		}
		cached, err := roleOf(role)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := c.namesOf(cached.(*cachedRole), test.rule)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", about, diff)
		}
	}
}

// TestOnlyCopiesAreNamed: the hash in a name is short, and users choose the content. An object that is there already under the
// name of the next copy, and is no copy of that source, is not named in a Role.
func TestOnlyCopiesAreNamed(t *testing.T) {
	t.Parallel()
	const next, older = "foo-0000000002", "foo-0000000001"
	unmarked := markedAs("foo", older)
	delete(unmarked.Annotations, copies.DigestAnnotation)
	otherContent := markedAs("foo", older)
	otherContent.Annotations[copies.DigestAnnotation] = "sha256:" + strings.Repeat("f", 64)
	called := func(copyName string) *cachedSource {
		return &cachedSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: next}, CopyName: copyName}
	}
	usedBy := triggeredDeployment("shop", "web")
	usedBy.Spec.Template.Annotations = map[string]string{trigger.ConfigAnnotation: `{"secret/foo":"` + older + `"}`}
	for about, test := range map[string]struct {
		secret *cachedSource
		copies []*cachedCopy
		isUsed bool
		want   []string
	}{
		"nothing is there yet":                        {want: []string{"foo", next}},
		"the copy is there":                           {copies: []*cachedCopy{markedAs("foo", next)}, want: []string{"foo", next}},
		"another Secret has the name":                 {secret: called(next + "-1111111111"), want: []string{"foo"}},
		"the copy has lost its label":                 {secret: called(next + "-0000000002"), want: []string{"foo", next}},
		"a copy of another Secret has the name":       {copies: []*cachedCopy{markedAs("bar", next)}, want: []string{"foo"}},
		"a copy without a digest":                     {copies: []*cachedCopy{unmarked}, want: []string{"foo", next}},
		"a copy whose digest is not that of its name": {copies: []*cachedCopy{otherContent}, want: []string{"foo", next}},
		"such a copy that a pod template uses":        {copies: []*cachedCopy{otherContent}, isUsed: true, want: []string{"foo", older, next}},
	} {
		c := idleController(t)
		add(t, c.caches.sources[api.Secret], fooSource())
		if test.secret != nil {
			add(t, c.caches.sources[api.Secret], test.secret)
		}
		for _, made := range test.copies {
			add(t, c.caches.copies[api.Secret], made)
		}
		if test.isUsed {
			cached[*cachedWorkload](t, c, usedBy)
		}
		role := roleOfFoo(t)
		got, _ := c.namesOf(role, role.Rules[0])
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", about, diff)
		}
	}
}

// roleOfFoo returns what the caches store of a Role that is to name the copies of the Secret foo.
func roleOfFoo(t *testing.T) *cachedRole {
	t.Helper()
	role, err := roleOf(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "reader", Annotations: map[string]string{copies.OfAnnotation: "secret/foo"}},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"foo"}, Verbs: []string{"get"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return role.(*cachedRole)
}

// TestNamesInARuleAreLimited: anybody who may create Secrets can mark many as copies. A rule names those that pod templates use,
// the next one and the newest, and an Event reports the rest.
func TestNamesInARuleAreLimited(t *testing.T) {
	t.Parallel()
	c := idleController(t)
	copyAt := func(i int) *cachedCopy {
		made := markedAs("foo", fmt.Sprintf("foo-%010x", i))
		made.CreationTimestamp = metav1.Unix(int64(i), 0)
		return made
	}
	const first, count = 1000, 2 * mostNames
	add(t, c.caches.sources[api.Secret], fooSource())
	for i := range count {
		add(t, c.caches.copies[api.Secret], copyAt(first+i))
	}
	oldest := copyAt(first).Name
	usedBy := triggeredDeployment("shop", "web")
	usedBy.Spec.Template.Annotations = map[string]string{trigger.ConfigAnnotation: `{"secret/foo":"` + oldest + `"}`}
	cached[*cachedWorkload](t, c, usedBy)
	role := roleOfFoo(t)
	want := []string{"foo", "foo-0000000002", oldest}
	for i := count - mostNames + 2; i < count; i++ {
		want = append(want, copyAt(first+i).Name)
	}
	names, isWhole := c.namesOf(role, role.Rules[0])
	if diff := cmp.Diff(want, names); diff != "" || isWhole {
		t.Errorf("the rule names %d of %d copies, and that it names all is %t (-want +got):\n%s", len(names), count, isWhole, diff)
	}
	add(t, c.caches.roles, role)
	for range 2 {
		if err := c.reconcileRole(t.Context(), keyOf(role)); err != nil {
			t.Fatal(err)
		}
	}
	const event = "Warning ConfigHeldBack there are more copies of secret/foo than the 100 that a rule can name, so it names those that pod templates use and " +
		"the newest: delete copies that nothing uses"
	recorder := c.cfg.Events.(*record.FakeRecorder)
	if got := <-recorder.Events; got != event || len(recorder.Events) > 0 {
		t.Errorf("Event = %q and %d more, want %q", got, len(recorder.Events), event)
	}
}

// TestWritesOfRolesAreCharged: a namespace pays for each write of a Role, whichever worker makes it. Without that, an edit of a
// source would be as many requests as there are Roles.
//
// Fault 42.
func TestWritesOfRolesAreCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := idleController(t)
		var sent int
		c.cfg.Client.(*fake.Clientset).PrependReactor("patch", "roles", func(clienttesting.Action) (bool, runtime.Object, error) {
			sent++
			return true, &rbacv1.Role{}, nil
		})
		c.roles = newQueue(func(role types.NamespacedName) string { return role.Namespace }, fairqueue.Metrics{})
		defer c.roles.ShutDown()
		add(t, c.caches.sources[api.Secret], fooSource())
		role := roleOfFoo(t)
		add(t, c.caches.roles, role)
		for range 2 * requestBurst { // The cache does not have the write yet.
			if err := c.reconcileRole(t.Context(), keyOf(role)); err != nil {
				t.Fatal(err)
			}
		}
		if sent != requestBurst {
			t.Errorf("%d writes at once, want %d", sent, requestBurst)
		}
		foo := api.Ref{Kind: api.Secret, Namespace: "shop", Name: "foo"}
		var putOff *putOffError
		if err := c.ensureNamed(t.Context(), foo, "foo-0000000002"); !errors.As(err, &putOff) || putOff.wait <= 0 || sent != requestBurst {
			t.Errorf("for a workload: %v, and %d writes, want that it is put off", err, sent)
		}
		sleep(t, time.Second)
		if err := c.ensureNamed(t.Context(), foo, "foo-0000000002"); !errors.Is(err, errChanged) || sent != requestBurst+1 {
			t.Errorf("a second later, for a workload: %v, and %d writes, want one more", err, sent)
		}
	})
}

// TestEditsAreOneLookAtARole: what happens to a source and its copies in half a second is one look at each Role.
func TestEditsAreOneLookAtARole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := idleController(t)
		c.roles = newQueue(func(role types.NamespacedName) string { return role.Namespace }, fairqueue.Metrics{})
		defer c.roles.ShutDown()
		add(t, c.caches.roles, roleOfFoo(t))
		for range 100 {
			c.queueRoles(api.Ref{Kind: api.Secret, Namespace: "shop", Name: "foo"})
			sleep(t, time.Millisecond)
		}
		if got := c.roles.Len(); got != 0 {
			t.Errorf("%d Roles are looked at while edits come in, want none", got)
		}
		sleep(t, folding)
		if got := c.roles.Len(); got != 1 {
			t.Errorf("%d looks at the Role, want 1", got)
		}
	})
}

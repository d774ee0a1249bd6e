package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// TestNamesOf: a rule gets the names of copies of the sources that it names, and nothing else of it changes.
func TestNamesOf(t *testing.T) {
	t.Parallel()
	c := idleController(t)
	copyOf := func(name string) *cachedCopy {
		return &cachedCopy{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Annotations: map[string]string{copies.SourceAnnotation: "secret/foo"},
		}}
	}
	source := &cachedSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foo"}, CopyName: "foo-0000000002"}
	for _, err := range []error{
		c.caches.sources[api.Secret][0].GetIndexer().Add(source),
		c.caches.copies[api.Secret][0].GetIndexer().Add(copyOf("foo-0000000001")),
		c.caches.copies[api.Secret][0].GetIndexer().Add(copyOf("admin")), // Anybody can write the annotation.
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
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
		got := c.namesOf(cached.(*cachedRole), test.rule)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", about, diff)
		}
	}
}

package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

var (
	tls      = api.Ref{Kind: api.Secret, Namespace: "certs", Name: "tls"}
	settings = api.Ref{Kind: api.ConfigMap, Namespace: "shared", Name: "settings"}
)

func pod() api.Pod {
	return api.Pod{Namespace: "default", Name: "web-0", UID: "uid", ServiceAccount: "runner"}
}

// TestChoose has every configuration, each with a source of either kind in the pod's own and in a
// foreign namespace.
func TestChoose(t *testing.T) {
	t.Parallel()
	const byDriver, byPod = identity.ByDriver, identity.ByPod
	driver, itself, behalf := identity.Driver(), identity.Of(pod()), identity.OnBehalf(pod())
	type readers struct{ configMaps, secrets identity.Reader }
	type source struct {
		kind      api.Kind
		namespace string
	}
	ownMap, ownSecret := source{api.ConfigMap, "default"}, source{api.Secret, "default"}
	foreignMap, foreignSecret := source{api.ConfigMap, "shared"}, source{api.Secret, "shared"}
	tests := map[readers]map[source]identity.Identity{
		{byDriver, byDriver}: {ownMap: driver, ownSecret: driver, foreignMap: behalf, foreignSecret: behalf},
		{byDriver, byPod}:    {ownMap: driver, ownSecret: itself, foreignMap: itself, foreignSecret: itself},
		{byPod, byDriver}:    {ownMap: itself, ownSecret: driver, foreignMap: itself, foreignSecret: behalf},
		{byPod, byPod}:       {ownMap: itself, ownSecret: itself, foreignMap: itself, foreignSecret: itself},
	}
	for r, sources := range tests {
		a := identity.Readers{ConfigMaps: r.configMaps, Secrets: r.secrets}
		for s, want := range sources {
			t.Run(fmt.Sprintf("%s of %s with ConfigMaps by %s and Secrets by %s", s.kind, s.namespace, r.configMaps, r.secrets), func(t *testing.T) {
				t.Parallel()
				if got := a.Choose(pod(), api.Ref{Kind: s.kind, Namespace: s.namespace, Name: "web"}); got != want {
					t.Errorf("Choose = %s, want %s", got, want)
				}
			})
		}
	}
}

// TestWhatIsForeign: neither a namespace whose name begins alike, nor none at all, is the pod's
// own.
func TestWhatIsForeign(t *testing.T) {
	t.Parallel()
	a := identity.Readers{ConfigMaps: identity.ByDriver, Secrets: identity.ByDriver}
	for _, namespace := range []string{"default-2", "defaul", "Default", ""} {
		if got := a.Choose(pod(), api.Ref{Kind: api.Secret, Namespace: namespace, Name: "web"}); got != identity.OnBehalf(pod()) {
			t.Errorf("Choose for namespace %q = %s, want %s", namespace, got, identity.OnBehalf(pod()))
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for id, want := range map[identity.Identity]string{
		identity.Driver():        "driver",
		identity.Of(pod()):       "serviceaccount default/runner",
		identity.OnBehalf(pod()): "driver for serviceaccount default/runner",
	} {
		if got := id.String(); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}

// TestOneGrantTakesNothingFromAnother: applying several grants changes no object of an earlier
// one.
func TestOneGrantTakesNothingFromAnother(t *testing.T) {
	t.Parallel()
	other := api.Pod{Namespace: "default", ServiceAccount: "other"}
	abroad := api.Pod{Namespace: "abroad", ServiceAccount: "runner"}
	objects := map[string]string{} // By kind and metadata.
	for _, p := range []api.Pod{pod(), other, abroad} {
		for _, id := range []identity.Identity{identity.Of(p), identity.OnBehalf(p)} {
			for _, ref := range []api.Ref{tls, {Kind: api.ConfigMap, Namespace: tls.Namespace, Name: tls.Name}, settings} {
				for text := range strings.SplitSeq(identity.Grant(id, ref), "---\n") {
					lines := strings.SplitN(text, "\n", 4)
					name := lines[1] + " " + lines[2]
					if earlier, found := objects[name]; found && earlier != text {
						t.Errorf("%s is made as\n%s\nand as\n%s", name, earlier, text)
					}
					objects[name] = text
				}
			}
		}
	}
	if got := len(objects); got != 6+18 {
		t.Errorf("%d objects, want a Role for each source and way of reading, and a RoleBinding for each account too: 24", got)
	}
}

// TestGrantIsWhatKubectlTakes, also for names that YAML would take for numbers and the like. The
// driver needs no more than get to read for a pod, and is not granted objects for itself.
func TestGrantIsWhatKubectlTakes(t *testing.T) {
	t.Parallel()
	if got := identity.Grant(identity.Driver(), tls); got != "" {
		t.Errorf("Grant for the driver = %s, want nothing", got)
	}
	for _, name := range []string{"web", "123", "true", "null", "1e3", "0x10", "0o17", "1.5", "2001-01-01", "yes", "y", "on", "a.b-c"} {
		p := api.Pod{Namespace: name, ServiceAccount: name}
		for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
			ref := api.Ref{Kind: kind, Namespace: name, Name: name}
			wantGrant(t, identity.Of(p), ref, "read", "get", "list", "watch")
			wantGrant(t, identity.OnBehalf(p), ref, "get", "get")
		}
	}
}

// wantGrant compares a grant for a service account, namespace and object of one name.
func wantGrant(t *testing.T, id identity.Identity, ref api.Ref, action string, verbs ...string) {
	t.Helper()
	roleText, bindingText, ok := strings.Cut(identity.Grant(id, ref), "---\n")
	if !ok {
		t.Fatal("Grant is one document, want two")
	}
	const group, version = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
	name, role := ref.Name, action+"-"+ref.Kind.Resource()+"-"+ref.Name
	checkYAML(t, roleText, rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: name},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{ref.Kind.Resource() + "s"}, ResourceNames: []string{name}, Verbs: verbs,
		}},
	})
	checkYAML(t, bindingText, rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: role + ":" + name + ":" + name, Namespace: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: group, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: name}},
	})
}

// checkYAML compares the object that the text means. A number instead of a text is an error.
func checkYAML[T any](t *testing.T, text string, want T) {
	t.Helper()
	var got T
	if err := yaml.UnmarshalStrict([]byte(text), &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Grant (-want +got):\n%s", diff)
	}
}

// TestParse: the name of an identity is that of no other, and other texts name none.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, id := range []identity.Identity{identity.Driver(), identity.Of(pod()), identity.OnBehalf(pod())} {
		if got, isKnown := identity.Parse(id.String()); !isKnown || got != id {
			t.Errorf("Parse(%q) = %+v, %t", id, got, isKnown)
		}
	}
	for _, text := range []string{
		"", "driver for ", "driver for driver", "serviceaccount ", "serviceaccount default", "serviceaccount /runner",
		"serviceaccount default/", "serviceaccount a/b/c", "serviceaccount a/b\nkind: Role", "user default/runner",
	} {
		if got, isKnown := identity.Parse(text); isKnown {
			t.Errorf("Parse(%q) = %+v, want none", text, got)
		}
	}
}

package access_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

func TestGrantIsForTheOneSource(t *testing.T) {
	t.Parallel()
	granted := func(role, verbs string) string {
		return `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: ` + role + `, namespace: "certs"}
rules:
- {apiGroups: [""], resources: [secrets], resourceNames: ["tls"], verbs: ` + verbs + `}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "` + role + `:default:runner", namespace: "certs"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ` + role + `}
subjects:
- {kind: ServiceAccount, name: "runner", namespace: "default"}
`
	}
	tests := map[string]struct {
		id   access.Identity
		want string
	}{
		"the pod's token watches":           {access.Of(pod()), granted("read-secret-tls", "[get, list, watch]")},
		"the driver asks whether it may":    {access.OnBehalf(pod()), granted("get-secret-tls", "[get]")},
		"the driver is not granted objects": {access.Driver(), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, access.Grant(tt.id, tls)); diff != "" {
				t.Errorf("Grant (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneGrantTakesNothingFromAnother: who applies many changes no object that an earlier one made.
func TestOneGrantTakesNothingFromAnother(t *testing.T) {
	t.Parallel()
	other := api.Pod{Namespace: "default", ServiceAccount: "other"}
	abroad := api.Pod{Namespace: "abroad", ServiceAccount: "runner"}
	objects := map[string]string{} // By kind and metadata.
	for _, p := range []api.Pod{pod(), other, abroad} {
		for _, id := range []access.Identity{access.Of(p), access.OnBehalf(p)} {
			for _, ref := range []api.Ref{tls, {Kind: api.ConfigMap, Namespace: tls.Namespace, Name: tls.Name}, settings} {
				for text := range strings.SplitSeq(access.Grant(id, ref), "---\n") {
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

// TestGrantIsWhatKubectlTakes, for names too that YAML would take for something else than text.
func TestGrantIsWhatKubectlTakes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"web", "123", "true", "null", "1e3", "0x10", "0o17", "1.5", "2001-01-01", "yes", "y", "on", "a.b-c"} {
		for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
			t.Run(kind.Resource()+" "+name, func(t *testing.T) {
				t.Parallel()
				id := access.Identity{Namespace: name, ServiceAccount: name}
				roleText, bindingText, ok := strings.Cut(access.Grant(id, api.Ref{Kind: kind, Namespace: name, Name: name}), "---\n")
				if !ok {
					t.Fatal("Grant is one document, want two")
				}
				role := "read-" + kind.Resource() + "-" + name
				about := metav1.ObjectMeta{Name: role, Namespace: name}
				binding := metav1.ObjectMeta{Name: role + ":" + name + ":" + name, Namespace: name}
				checkYAML(t, roleText, rbacv1.Role{
					TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: about,
					Rules: []rbacv1.PolicyRule{{
						APIGroups: []string{""}, Resources: []string{kind.Resource() + "s"}, ResourceNames: []string{name},
						Verbs: []string{"get", "list", "watch"},
					}},
				})
				checkYAML(t, bindingText, rbacv1.RoleBinding{
					TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}, ObjectMeta: binding,
					RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: role},
					Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: name}},
				})
			})
		}
	}
}

// checkYAML compares the object that the text stands for. A number where a text belongs is an error.
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

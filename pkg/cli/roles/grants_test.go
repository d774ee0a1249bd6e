package roles_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/roles"
)

func TestGrants(t *testing.T) {
	t.Parallel()
	defaults := roles.Policy{Readers: identity.Readers{ConfigMaps: identity.ByDriver, Secrets: identity.ByPod}}
	inNamespaces := func(names ...string) roles.Policy {
		return roles.Policy{Readers: identity.Readers{ConfigMaps: identity.ByDriver, Secrets: identity.ByPod}, SourceNamespaces: names}
	}
	ref := func(text string) api.Ref {
		parts := strings.Split(text, "/")
		return api.Ref{Kind: map[string]api.Kind{"cm": api.ConfigMap, "secret": api.Secret}[parts[0]], Namespace: parts[1], Name: parts[2]}
	}
	tests := map[string]struct {
		policy   roles.Policy
		refs     []api.Ref
		triggers []api.Ref
		copies   map[api.Ref]api.Ref
		want     []string
		copied   []api.Ref
		released []api.Ref
		foreign  []api.Ref
	}{
		"what the driver reads needs nothing": {policy: defaults, refs: []api.Ref{ref("cm/shop/web")}},
		"a Secret is read by the pod, and granted once": {
			policy: defaults, refs: []api.Ref{ref("secret/shop/tls"), ref("secret/shop/tls")},
			want: []string{"shop/read-secret-tls: get,list,watch secrets tls", "shop/read-secret-tls:shop:web -> read-secret-tls"},
		},
		"a source of another namespace gets no Role unless the caller names the namespace": {
			policy: inNamespaces("other"), refs: []api.Ref{ref("secret/kube-system/admin"), ref("cm/certs/ca"), ref("cm/certs/ca"), ref("secret/shop/tls")},
			want:    []string{"shop/read-secret-tls: get,list,watch secrets tls", "shop/read-secret-tls:shop:web -> read-secret-tls"},
			foreign: []api.Ref{ref("secret/kube-system/admin"), ref("cm/certs/ca")},
		},
		"another namespace takes the consent of its owner": {
			policy: inNamespaces("certs"), refs: []api.Ref{ref("cm/certs/ca")},
			want: []string{"certs/read-configmap-ca: get,list,watch configmaps ca", "certs/read-configmap-ca:shop:web -> read-configmap-ca"},
		},
		"the stable copy of what is released": {
			policy: defaults, refs: []api.Ref{ref("secret/shop/tls")}, released: []api.Ref{ref("secret/shop/tls")},
			want: []string{
				"shop/read-secret-tls: get,list,watch secrets tls", "shop/read-secret-tls:shop:web -> read-secret-tls",
				"shop/read-secret-tls.stable: get,list,watch secrets tls.stable", "shop/read-secret-tls.stable:shop:web -> read-secret-tls.stable",
			},
		},
		"which is get where the driver reads": {
			policy: roles.Policy{Readers: identity.Readers{ConfigMaps: identity.ByDriver, Secrets: identity.ByDriver}, SourceNamespaces: []string{"certs"}},
			refs:   []api.Ref{ref("secret/certs/ca"), ref("secret/shop/tls")},
			want:   []string{"certs/get-secret-ca: get secrets ca", "certs/get-secret-ca:shop:web -> get-secret-ca"},
		},
		"copies have names that nobody knows, and make single grants needless": {
			policy:   defaults,
			refs:     []api.Ref{ref("secret/shop/static"), ref("secret/shop/tls-0123456789"), ref("cm/shop/web-0123456789")},
			triggers: []api.Ref{ref("secret/shop/tls"), ref("cm/shop/web")},
			copies: map[api.Ref]api.Ref{
				ref("secret/shop/tls-0123456789"): ref("secret/shop/tls"), ref("cm/shop/web-0123456789"): ref("cm/shop/web"),
			},
			want:   []string{"shop/read-secrets: get,list,watch secrets ", "shop/read-secrets:shop:web -> read-secrets"},
			copied: []api.Ref{ref("secret/shop/tls")},
		},
		"a Role that the controller writes the names of copies into": {
			policy: roles.Policy{Readers: identity.Readers{ConfigMaps: identity.ByDriver, Secrets: identity.ByPod}, NamedCopies: true},
			refs:   []api.Ref{ref("secret/shop/static"), ref("secret/shop/tls-0123456789")}, triggers: []api.Ref{ref("secret/shop/tls")},
			copies: map[api.Ref]api.Ref{ref("secret/shop/tls-0123456789"): ref("secret/shop/tls")},
			want: []string{
				"shop/read-secret-tls (secret/tls): get,list,watch secrets tls", "shop/read-secret-tls:shop:web -> read-secret-tls",
				"shop/read-secret-static: get,list,watch secrets static", "shop/read-secret-static:shop:web -> read-secret-static",
			},
			copied: []api.Ref{ref("secret/shop/tls")},
		},
		"all objects of a kind, among which labels select": {
			policy: inNamespaces("certs"), refs: []api.Ref{ref("secret/shop/"), ref("secret/shop/tls"), ref("cm/certs/"), ref("cm/other/"), ref("cm//")},
			want: []string{
				"shop/read-secrets: get,list,watch secrets ", "shop/read-secrets:shop:web -> read-secrets",
				"certs/read-configmaps: get,list,watch configmaps ", "certs/read-configmaps:shop:web -> read-configmaps",
			},
			foreign: []api.Ref{ref("cm/other/"), ref("cm//")},
		},
		"all of a cluster": {
			policy: inNamespaces("*"), refs: []api.Ref{ref("cm//")},
			want: []string{
				"/liveconfig-list-configmaps: get,list,watch configmaps ", "/liveconfig-list-configmaps:shop:web -> liveconfig-list-configmaps",
			},
		},
		"what triggers and was not copied yet": {
			policy: roles.Policy{Readers: identity.Readers{ConfigMaps: identity.ByPod, Secrets: identity.ByPod}},
			refs:   []api.Ref{ref("cm/shop/web")}, triggers: []api.Ref{ref("cm/shop/web"), ref("secret/shop/unused")},
			want:   []string{"shop/read-configmaps: get,list,watch configmaps ", "shop/read-configmaps:shop:web -> read-configmaps"},
			copied: []api.Ref{ref("cm/shop/web")},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := roles.New(test.policy)
			added := g.Add(roles.Pods{
				Namespace: "shop", ServiceAccount: "web", Refs: test.refs, Triggers: test.triggers, Copies: test.copies, Released: test.released,
			})
			if diff := cmp.Diff(roles.Added{Copied: test.copied, Foreign: test.foreign, None: len(test.want) == 0}, added); diff != "" {
				t.Errorf("Add (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, shown(t, g)); diff != "" {
				t.Errorf("Objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeepCopies: of the Role that is there, only names of copies stay, and everything else is as it is wanted.
func TestKeepCopies(t *testing.T) {
	t.Parallel()
	const of = "liveconfig.internal/copies-of"
	all := []string{"get", "list", "watch"}
	rule := func(verbs []string, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	wanted := rule(all, "secrets", "tls")
	for about, test := range map[string]struct {
		annotation string
		live       []rbacv1.PolicyRule
		want       rbacv1.PolicyRule
	}{
		"names of copies stay":            {"secret/tls", []rbacv1.PolicyRule{rule(all, "secrets", "tls", "tls-0123456789")}, rule(all, "secrets", "tls", "tls-0123456789")},
		"in their order":                  {"secret/tls", []rbacv1.PolicyRule{rule(all, "secrets", "tls-0123456789", "tls")}, rule(all, "secrets", "tls-0123456789", "tls")},
		"another order of the verbs":      {"secret/tls", []rbacv1.PolicyRule{rule([]string{"watch", "get", "list"}, "secrets", "tls")}, rule([]string{"watch", "get", "list"}, "secrets", "tls")},
		"no other name stays":             {"secret/tls", []rbacv1.PolicyRule{rule(all, "secrets", "tls", "admin", "*", "admin-0123456789", "tls-0123456789")}, rule(all, "secrets", "tls", "tls-0123456789")},
		"a rule for all Secrets":          {"secret/tls", []rbacv1.PolicyRule{rule(all, "secrets")}, wanted},
		"more verbs":                      {"secret/tls", []rbacv1.PolicyRule{rule([]string{"*"}, "secrets", "tls", "tls-0123456789")}, wanted},
		"another resource":                {"secret/tls", []rbacv1.PolicyRule{rule(all, "configmaps", "tls", "tls-0123456789")}, wanted},
		"no rule":                         {"secret/tls", nil, wanted},
		"a second rule does not stay":     {"secret/tls", []rbacv1.PolicyRule{rule(all, "pods"), rule(all, "secrets", "tls", "tls-0123456789")}, rule(all, "secrets", "tls", "tls-0123456789")},
		"a list with other sources":       {"configmap/web, secret/tls", []rbacv1.PolicyRule{rule(all, "secrets", "tls", "tls-0123456789")}, rule(all, "secrets", "tls", "tls-0123456789")},
		"a list without the source":       {"configmap/tls", []rbacv1.PolicyRule{rule(all, "secrets", "tls", "tls-0123456789")}, wanted},
		"a list with a mistake":           {"secret/tls,x", []rbacv1.PolicyRule{rule(all, "secrets", "tls", "tls-0123456789")}, wanted},
		"a Role that nobody has asked of": {"", []rbacv1.PolicyRule{rule(all, "secrets", "tls", "tls-0123456789")}, wanted},
	} {
		live, got := &rbacv1.Role{Rules: test.live}, &rbacv1.Role{Rules: []rbacv1.PolicyRule{wanted}}
		live.Annotations = map[string]string{of: test.annotation, "a": "b"}
		roles.KeepCopies(got, live)
		if got.Annotations[of] != "" && got.Annotations[of] != test.annotation || got.Annotations["a"] != "" {
			t.Errorf("%s: the Role has the annotations %v", about, got.Annotations)
		}
		if diff := cmp.Diff([]rbacv1.PolicyRule{test.want}, got.Rules); diff != "" {
			t.Errorf("%s (-want +got):\n%s", about, diff)
		}
	}
	whole := &rbacv1.Role{Rules: []rbacv1.PolicyRule{rule(all, "secrets")}}
	roles.KeepCopies(whole, &rbacv1.Role{Rules: []rbacv1.PolicyRule{rule(all, "secrets", "tls")}})
	if diff := cmp.Diff([]rbacv1.PolicyRule{rule(all, "secrets")}, whole.Rules); diff != "" {
		t.Errorf("a Role for all Secrets (-want +got):\n%s", diff)
	}
}

// shown writes down what matters of each object, and checks what all have.
func shown(t *testing.T, g *roles.Grants) []string {
	t.Helper()
	objects, err := g.Objects()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, object := range objects {
		line := object.Meta.Namespace + "/" + object.Meta.Name
		switch o := object.Object.(type) {
		case *rbacv1.Role:
			if sources := o.Annotations["liveconfig.internal/copies-of"]; sources != "" {
				line += " (" + sources + ")"
			}
			for _, rule := range o.Rules {
				line += ": " + strings.Join(rule.Verbs, ",") + " " + strings.Join(rule.Resources, ",") + " " + strings.Join(rule.ResourceNames, ",")
			}
		case *rbacv1.ClusterRole:
			rule := o.Rules[0]
			line += ": " + strings.Join(rule.Verbs, ",") + " " + strings.Join(rule.Resources, ",") + " " + strings.Join(rule.ResourceNames, ",")
		case *rbacv1.ClusterRoleBinding:
			line += " -> " + o.RoleRef.Name
		case *rbacv1.RoleBinding:
			line += " -> " + o.RoleRef.Name
			want := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "web"}}
			if diff := cmp.Diff(want, o.Subjects); diff != "" {
				t.Errorf("subjects of %s (-want +got):\n%s", object, diff)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

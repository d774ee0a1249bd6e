package identity_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// TestGrantOfSelections: the right is that to list and watch the kind, in the namespace or in the
// cluster, whichever credentials read.
func TestGrantOfSelections(t *testing.T) {
	t.Parallel()
	const group, version = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}}}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "runner", Namespace: "default"}}
	typed := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: version, Kind: kind} }
	for _, id := range []identity.Identity{identity.Of(pod()), identity.OnBehalf(pod())} {
		role, binding, _ := strings.Cut(identity.Grant(id, api.Ref{Kind: api.Secret, Namespace: "123"}), "---\n")
		const name, ofCluster = "list-secrets", "liveconfig-list-secrets"
		checkYAML(t, role, rbacv1.Role{
			TypeMeta: typed("Role"), ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "123"}, Rules: rules,
		})
		checkYAML(t, binding, rbacv1.RoleBinding{
			TypeMeta: typed("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: name + ":default:runner", Namespace: "123"},
			RoleRef: rbacv1.RoleRef{APIGroup: group, Kind: "Role", Name: name}, Subjects: subjects,
		})
		role, binding, _ = strings.Cut(identity.Grant(id, api.Ref{Kind: api.Secret}), "---\n")
		checkYAML(t, role, rbacv1.ClusterRole{
			TypeMeta: typed("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: ofCluster}, Rules: rules,
		})
		checkYAML(t, binding, rbacv1.ClusterRoleBinding{
			TypeMeta: typed("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: ofCluster + ":default:runner"},
			RoleRef: rbacv1.RoleRef{APIGroup: group, Kind: "ClusterRole", Name: ofCluster}, Subjects: subjects,
		})
	}
	if got := identity.Grant(identity.Driver(), api.Ref{Kind: api.ConfigMap, Namespace: "default"}); got != "" {
		t.Errorf("Grant for the driver = %s, want nothing", got)
	}
}

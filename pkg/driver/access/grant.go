package access

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Grant returns the Role and RoleBinding, as YAML that can be applied, by which the owner of a source lets an identity read
// it. What one identity is granted has a name of its own, so that applying it takes nothing from another. Nobody grants
// anything to the driver for one source: for its identity there is none.
func Grant(id Identity, ref api.Ref) string {
	if id == Driver() {
		return ""
	}
	action, verbs := "read", "[get, list, watch]"
	if id.ByDriver { // That asks for no more, and a Role of the same name must not take list and watch away.
		action, verbs = "get", "[get]"
	}
	role := action + "-" + ref.Kind.Resource() + "-" + ref.Name
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, namespace: %[2]q}
rules:
- {apiGroups: [""], resources: [%[3]s], resourceNames: [%[4]q], verbs: %[5]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "%[1]s:%[7]s:%[6]s", namespace: %[2]q}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects:
- {kind: ServiceAccount, name: %[6]q, namespace: %[7]q}
`, role, ref.Namespace, resourceOf(ref.Kind), ref.Name, verbs, id.ServiceAccount, id.Namespace)
}

// resourceOf returns the kind's name in URLs and RBAC rules.
func resourceOf(kind api.Kind) string { return kind.Resource() + "s" }

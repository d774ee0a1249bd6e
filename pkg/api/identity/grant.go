package identity

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Grant returns the YAML of the Role and RoleBinding by which the owner of a source lets an
// identity read it. The names include the identity, so applying one grant takes nothing from
// another identity. The driver is not granted single sources: for its own identity the text is
// empty. A ref without a name stands for all objects of the kind.
func Grant(id Identity, ref api.Ref) string {
	switch {
	case id == Driver():
		return ""
	case ref.Name == "":
		return grantAll(id, ref)
	}
	action, verbs := "read", "[get, list, watch]"
	if id.ByDriver { // Get is enough, and a Role of the same name must not take list and watch away.
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
`, role, ref.Namespace, ref.Kind.Resource()+"s", ref.Name, verbs, id.ServiceAccount, id.Namespace)
}

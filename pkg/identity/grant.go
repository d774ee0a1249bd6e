package identity

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// verbs are what reading a source takes.
const verbs = "[get, list, watch]"

// Grant returns the Role and RoleBinding, as YAML that can be applied, by which the owner of a source lets an identity read
// it. Nobody grants anything to the driver for one source: for its identity there is none.
func Grant(id Identity, ref api.Ref) string {
	if id == Driver() {
		return ""
	}
	role := "read-" + ref.Kind.Resource() + "-" + ref.Name
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, namespace: %[2]s}
rules:
- {apiGroups: [""], resources: [%[3]ss], resourceNames: [%[4]s], verbs: %[5]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects:
- {kind: ServiceAccount, name: %[6]s, namespace: %[7]s}
`, role, ref.Namespace, ref.Kind.Resource(), ref.Name, verbs, id.ServiceAccount, id.Namespace)
}

package identity

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// grantAll is [Grant] for all objects of a kind in a namespace, or in the cluster if the ref has no
// namespace. RBAC does not know labels, so a selection needs the whole kind.
func grantAll(id Identity, ref api.Ref) string {
	prefix, name, namespace := "", "list-"+ref.Kind.Resource()+"s", fmt.Sprintf(", namespace: %q", ref.Namespace)
	if ref.Namespace == "" { // The names of a cluster's roles are shared with everybody.
		prefix, name, namespace = "Cluster", "liveconfig-"+name, ""
	}
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sRole
metadata: {name: %[2]s%[3]s}
rules:
- {apiGroups: [""], resources: [%[4]s], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sRoleBinding
metadata: {name: "%[2]s:%[6]s:%[5]s"%[3]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]sRole, name: %[2]s}
subjects:
- {kind: ServiceAccount, name: %[5]q, namespace: %[6]q}
`, prefix, name, namespace, ref.Kind.Resource()+"s", id.ServiceAccount, id.Namespace)
}

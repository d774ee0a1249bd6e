package convert

import (
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/mounts"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// tokenPath is where the API server mounts a token into each container of a new pod, unless that is
// turned off or something is mounted there already.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // It is no credential.

// containersOf returns the containers of a pod spec with their mounts, as the pod will have them.
func containersOf(spec manifest.PodSpec) (containers []mounts.Container) {
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range manifest.Objects(spec.Data[list]) {
			c := mounts.Container{}
			c.Name, _ = container["name"].(string)
			for _, m := range manifest.Objects(container["volumeMounts"]) {
				c.Mounts = append(c.Mounts, mountOf(m))
			}
			hasToken := slices.ContainsFunc(c.Mounts, func(m mounts.Mount) bool { return m.Path == tokenPath })
			if !hasToken && spec.Data["automountServiceAccountToken"] != false {
				c.Mounts = append(c.Mounts, mounts.Mount{Path: tokenPath})
			}
			containers = append(containers, c)
		}
	}
	return containers
}

func mountOf(m map[string]any) mounts.Mount {
	text := func(field string) string { s, _ := m[field].(string); return s }
	return mounts.Mount{
		Volume: text("name"), Path: text("mountPath"), SubPath: text("subPath"), SubPathExpr: text("subPathExpr"),
	}
}

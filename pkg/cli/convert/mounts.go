package convert

import (
	"github.com/liveconfig-csi/liveconfig/pkg/cli/mounts"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// containersOf returns the containers of a pod spec with their mounts, as the pod will have them.
func containersOf(spec manifest.PodSpec) (containers []mounts.Container) {
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range manifest.Objects(spec.Data[list]) {
			c := mounts.Container{}
			c.Name, _ = container["name"].(string)
			for _, m := range manifest.Objects(container["volumeMounts"]) {
				c.Mounts = append(c.Mounts, mountOf(m))
			}
			if spec.Data["automountServiceAccountToken"] != false {
				c = c.WithToken()
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

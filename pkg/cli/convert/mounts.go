package convert

import "github.com/liveconfig-csi/liveconfig/pkg/manifest"

// volumeMounts are the mounts of one volume, by the names of their containers.
type volumeMounts struct{ wholes, parts []any }

func mountsOf(spec manifest.PodSpec, volume string) volumeMounts {
	var m volumeMounts
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range manifest.Objects(spec.Data[list]) {
			for _, mount := range manifest.Objects(container["volumeMounts"]) {
				switch {
				case mount["name"] != volume:
				case hasText(mount["subPath"]) || hasText(mount["subPathExpr"]):
					m.parts = append(m.parts, container["name"])
				default:
					m.wholes = append(m.wholes, container["name"])
				}
			}
		}
	}
	return m
}

func hasText(field any) bool { return field != nil && field != "" }

// needInPlace reports whether updates reach containers only in place, since all mount a subPath.
func (m volumeMounts) needInPlace() bool { return len(m.parts) > 0 && len(m.wholes) == 0 }

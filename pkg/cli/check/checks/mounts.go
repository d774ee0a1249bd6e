package checks

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// mounts checks what containers make of the volumes: of all names, some are ours, with their update
// policies.
func (r *review) mounts(names map[string]manifest.Path, ours map[string]string) {
	mounted := map[string]bool{}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for i, container := range manifest.Objects(r.spec.Data[list]) {
			at := r.spec.Path.Field(list).Index(i).Field("volumeMounts")
			r.container(at, manifest.Objects(container["volumeMounts"]), names, ours)
			for _, mount := range manifest.Objects(container["volumeMounts"]) {
				name, _ := mount["name"].(string)
				mounted[name] = true
			}
		}
	}
	if r.spec.IsPatch() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if !mounted[name] {
			r.warning(names[name], "no container mounts volume %q", name)
		}
	}
}

// container checks the mounts of one container.
func (r *review) container(at manifest.Path, mounts []map[string]any, names map[string]manifest.Path, ours map[string]string) {
	paths := map[string]manifest.Path{}
	for i, mount := range mounts {
		at := at.Index(i)
		name, _ := mount["name"].(string)
		if names[name] == nil {
			r.mistake(at.Field("name"), "there is no volume %q, there are: %s", name, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
		mountPath, _ := mount["mountPath"].(string)
		if first, found := paths[mountPath]; found {
			r.mistake(at.Field("mountPath"), "%s is that of %s as well, change one", mountPath, first)
		}
		paths[mountPath] = at
		if policy, isOurs := ours[name]; isOurs {
			r.subPath(at, mount, policy)
			r.below(at, mount, mounts)
		}
	}
}

// subPath warns of a mount that updates do not reach.
func (r *review) subPath(at manifest.Path, mount map[string]any, policy string) {
	for _, field := range []string{"subPath", "subPathExpr"} {
		if text, _ := mount[field].(string); text != "" && policy != string(api.UpdateInPlace) && policy != string(api.UpdateNever) {
			r.warning(at.Field(field), "updates do not reach a mount of a part: they do with updatePolicy: InPlace, "+
				"where a reader may see a half-written file")
		}
	}
}

// below warns of a mount inside one of ours, which is read-only: nobody can make a directory for it
// there.
func (r *review) below(at manifest.Path, mount map[string]any, mounts []map[string]any) {
	outer, _ := mount["mountPath"].(string)
	for _, other := range mounts {
		inner, _ := other["mountPath"].(string)
		if outer != "" && strings.HasPrefix(path.Clean(inner), strings.TrimSuffix(path.Clean(outer), "/")+"/") {
			r.warning(at.Field("mountPath"), "%s is mounted inside %s, which is read-only: the pod starts only if the volume has that path", inner, outer)
		}
	}
}

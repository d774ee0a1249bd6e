package treebuilder

import (
	"fmt"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// isFree reports whether a file can be at a path. If a mount point has the place, the key is left
// out and remembered. An empty key stands for all keys of a source.
func (d *draft) isFree(src api.Source, key, path string) bool {
	if !tree.Blocks(d.mountPoints, path) {
		return true
	}
	what := "all keys"
	if key != "" {
		what = "key " + shown(key)
	}
	d.leftOut.add(fmt.Sprintf("%s of %s %s/%s at path %s", what, src.Ref.Kind.Resource(),
		src.Ref.Namespace, src.Ref.Name, shown(path)))
	return false
}

// LeftOut returns the keys that have no file because their places belong to mount points, sorted.
// After 20 of them a last text counts the rest. The list is the caller's.
func (p Plan) LeftOut() []string {
	return p.leftOut.list()
}

// mountPoints returns the mount points of a spec, sorted: those that it always has, and those for
// which no file is in the way.
func mountPoints(spec api.Spec, t tree.Tree) []string {
	if len(spec.MountPointsIfAbsent) == 0 {
		return spec.MountPoints
	}
	points := slices.Clone(spec.MountPoints)
	for _, point := range spec.MountPointsIfAbsent {
		if !t.HasFileInWay(point) {
			points = append(points, point)
		}
	}
	slices.Sort(points)
	return points
}

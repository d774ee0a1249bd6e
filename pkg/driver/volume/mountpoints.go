package volume

import (
	"fmt"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
)

// mountPoints are the directories of a volume in which there is never a file.
type mountPoints struct{ paths []string }

// storeMountPoints stores those of the last write, where the content at the publish has decided.
func (h held) storeMountPoints(paths []string) {
	if len(h.spec.MountPointsIfAbsent) > 0 {
		h.files.mountPoints = &mountPoints{paths}
	}
}

// decideMountPoints replaces the mount points of a live volume that depend on what its content was
// at the publish. The directories in its files are the record of that.
func (h held) decideMountPoints(l *look) error {
	if !h.isLive() || len(l.spec.MountPointsIfAbsent) == 0 {
		return nil
	}
	if h.files.mountPoints == nil {
		view, err := h.openView(write{})
		if err != nil {
			return fmt.Errorf("find the mount points: %w", err)
		}
		found := atomicdir.EmptyDirs(view.Root(), l.spec.MountPointsIfAbsent)
		h.storeMountPoints(slices.Sorted(slices.Values(slices.Concat(l.spec.MountPoints, found))))
	}
	l.spec.MountPoints, l.spec.MountPointsIfAbsent = h.files.mountPoints.paths, nil
	return nil
}

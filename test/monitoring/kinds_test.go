package monitoring

import (
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// isKind reports whether the driver gives that value to the label kind.
func isKind(kind string) bool {
	return kind == "Installation" || slices.Contains(volume.Kinds(), volume.Kind(kind))
}

package selection

import (
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// SplitTriggers separates workloads from objects that trigger their rollouts: ConfigMaps and
// Secrets make no pods.
func SplitTriggers(args []string) (targets []string, objects []trigger.Object, err error) {
	for _, arg := range args {
		kind, _, _ := strings.Cut(arg, "/")
		if _, err := trigger.ParseObject(kind + "/name"); err != nil {
			targets = append(targets, arg)
			continue
		}
		if kind == arg {
			return nil, nil, usage.Errorf("%q names no object: write it with its name, such as %s/app", arg, arg)
		}
		found, err := trigger.Parse(arg)
		if err != nil {
			return nil, nil, usage.Errorf("%w", err)
		}
		objects = append(objects, found...)
	}
	slices.SortFunc(objects, trigger.Compare)
	return targets, slices.Compact(objects), nil
}

// Package rollout is `kubectl liveconfig rollout`: history, undo, pause and resume.
//
// It does not know how a rollout is driven: the controller does that.
package rollout

import (
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	c := usage.Group(&cobra.Command{
		Use:   "rollout",
		Short: "Look at revisions of config, go back to one, and hold edits back",
		Long: "Knows revisions as `kubectl rollout` does, and beside their templates the config that their pods have. `kubectl rollout\n" +
			"status` and `restart` need nothing of that, and have no other here.",
	})
	c.AddCommand(newRolloutHistory(s), newRolloutUndo(s), newRolloutPause(s), newRolloutResume(s))
	return c
}

// rolloutTargets is what the commands of rollout work on: what is in the cluster.
type rolloutTargets struct {
	selection.Selection

	driver string
}

func (o *rolloutTargets) addFlags(c *cobra.Command) {
	o.AddClusterFlags(c)
	selection.AddDriverFlag(c, &o.driver)
}

// fullName is how kubectl prints an object, such as deployment.apps/web.
func fullName(info *resource.Info) string {
	kind := info.Mapping.GroupVersionKind
	return strings.ToLower(kind.Kind) + "." + kind.Group + "/" + info.Name
}

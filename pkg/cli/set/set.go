// Package set is `kubectl liveconfig set`: the volumes of workloads, and what triggers rollouts.
//
// It does not know which attributes are right: the parser of the driver does.
package set

import (
	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	c := usage.Group(&cobra.Command{
		Use:   "set",
		Short: "Change the volumes of a workload, or what triggers its rollouts",
	})
	first := newSetTrigger(s) // The name that the command was first proposed under.
	first.Use, first.Hidden = "triggers TYPE/NAME OBJECT...", true
	c.AddCommand(newSetTrigger(s), newSetVolume(s), first)
	return c
}

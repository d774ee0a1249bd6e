// Package version is `kubectl liveconfig version`.
//
// It does not know where the version comes from.
package version

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the plugin",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Out, version.Version())
			return err
		},
	}
}

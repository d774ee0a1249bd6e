package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
)

func newVersion(s *session) *cobra.Command {
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

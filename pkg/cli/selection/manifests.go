package selection

import (
	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// AddManifestFlags adds the flags by which people name manifests that are looked at as texts.
func AddManifestFlags(c *cobra.Command, in *manifest.Input) {
	c.Flags().StringSliceVarP(&in.Names, "filename", "f", nil, "file or directory of manifests; - is stdin")
	c.Flags().BoolVarP(&in.Recursive, "recursive", "R", false, "go into the directories of --filename")
}

// FilesOnly refuses arguments of a command that works on manifests: the flag before a file was
// forgotten.
func FilesOnly(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage.Errorf("%q is not an argument of %s: use -f %[1]s for a file of that name", args[0], c.CommandPath())
	}
	return nil
}

// ReadManifests reads what --filename names.
func ReadManifests(s *session.Session, in manifest.Input) ([]manifest.File, error) {
	if len(in.Names) == 0 {
		return nil, usage.Errorf("name the manifests: --filename FILE, or - for stdin")
	}
	in.Stdin = s.In
	return manifest.Read(in)
}

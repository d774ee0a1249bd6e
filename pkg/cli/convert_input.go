package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// addInputFlags adds the flags by which people name manifests that are looked at as texts.
func addInputFlags(c *cobra.Command, in *manifest.Input) {
	c.Flags().StringSliceVarP(&in.Names, "filename", "f", nil, "file or directory of manifests; - is stdin")
	c.Flags().BoolVarP(&in.Recursive, "recursive", "R", false, "go into the directories of --filename")
}

// filesOnly refuses arguments of a command that works on manifests: who names a file forgot the flag before it.
func filesOnly(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("%q is no argument of %s: say -f %[1]s for a file of that name", args[0], c.CommandPath())
	}
	return nil
}

// readManifests reads what --filename names.
func readManifests(s *session, in manifest.Input) ([]manifest.File, error) {
	if len(in.Names) == 0 {
		return nil, usageError("say which manifests: --filename FILE, or - for stdin")
	}
	in.Stdin = s.In
	return manifest.Read(in)
}

// namespaceOr returns the namespace that a manifest says, or else the session's.
func namespaceOr(s *session, said string) string {
	if said != "" {
		return said
	}
	namespace, err := s.namespace()
	if err != nil || namespace == "" {
		return corev1.NamespaceDefault
	}
	return namespace
}

// remark tells the person something beside the output. When nobody listens any more there is nobody to tell.
func (s *session) remark(format string, args ...any) {
	_, _ = fmt.Fprintln(s.ErrOut, plain(fmt.Sprintf(format, args...)))
}

// Package completion is `kubectl liveconfig completion`, and completes arguments and flags of all
// commands.
//
// It does not know what commands do.
package completion

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// program is what the plugin is called in the PATH.
const program = "kubectl-liveconfig"

// forKubectl is the script that kubectl asks when somebody completes what is typed after `kubectl
// liveconfig`.
const forKubectl = `#!/bin/sh
# kubectl asks this to complete what is typed after "kubectl liveconfig". It belongs into the PATH, under the name
# kubectl_complete-liveconfig.
exec ` + program + ` __complete "$@"
`

// scripts print what has a shell, or kubectl, complete what people type.
func scripts() map[string]func(io.Writer) error {
	plugin := &cobra.Command{Use: program} // A script does not know commands: it asks the program.
	return map[string]func(io.Writer) error{
		"bash": func(to io.Writer) error { return plugin.GenBashCompletionV2(to, true) },
		"zsh":  plugin.GenZshCompletion,
		"fish": func(to io.Writer) error { return plugin.GenFishCompletion(to, true) },
		"kubectl": func(to io.Writer) error {
			_, err := io.WriteString(to, forKubectl)
			return err
		},
	}
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	names := []string{"kubectl", "bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion kubectl|bash|zsh|fish",
		Short: "Print the script that completes what you type",
		Long: "With kubectl it is a script that kubectl's own completion asks for what follows `kubectl liveconfig`. It has to be a\n" +
			"program in the PATH. With the name of a shell it is for people who type kubectl-liveconfig, with the hyphen.",
		Example: "  kubectl liveconfig completion kubectl > ~/.local/bin/kubectl_complete-liveconfig\n" +
			"  chmod +x ~/.local/bin/kubectl_complete-liveconfig\n" +
			"  source <(kubectl liveconfig completion bash)",
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return usage.Errorf("name one of %s", strings.Join(names, ", "))
			}
			if err := scripts()[args[0]](s.Out); err != nil {
				return fmt.Errorf("print the script for %s: %w", args[0], err)
			}
			return nil
		},
	}
}

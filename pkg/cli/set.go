package cli

import "github.com/spf13/cobra"

func newSet(s *session) *cobra.Command {
	c := &cobra.Command{
		Use:   "set",
		Short: "Change the volumes of a workload, or what triggers its rollouts",
		Args:  subcommandOnly,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	first := newSetTrigger(s) // The name that the command was first proposed under.
	first.Use, first.Hidden = "triggers TYPE/NAME OBJECT...", true
	c.AddCommand(newSetTrigger(s), newSetVolume(s), first)
	return c
}

// Package usage has what commands with subcommands do, completions of fixed values, and the status
// that the program exits with.
//
// It does not know any command.
package usage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group makes a command one that has subcommands and does nothing without them.
func Group(c *cobra.Command) *cobra.Command {
	c.Args = SubcommandOnly
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// SubcommandOnly refuses arguments that are not subcommands, and suggests similar ones.
func SubcommandOnly(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	near := c.SuggestionsFor(args[0])
	if len(near) == 0 {
		return fmt.Errorf("unknown command %q for %q: see %s --help", args[0], c.CommandPath(), c.CommandPath())
	}
	return fmt.Errorf("unknown command %q for %q, did you mean %s?", args[0], c.CommandPath(), strings.Join(near, " or "))
}

// Complete has the shell complete a flag with fixed values.
func Complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // The flag exists.
}

// Exit ends the program with a separate status. It has no error where the status is an answer, and
// all is printed.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns what was wrong.
func (e *Exit) Unwrap() error { return e.Err }

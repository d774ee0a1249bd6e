// Package cli is the kubectl plugin: `kubectl liveconfig`. Its commands keep to kubectl's conventions, and say what is
// wrong and what to type.
//
// It does not know how volumes are made or rollouts are driven: it reads and writes what is in the API, with the parsers
// that the driver and the controller use.
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// qps and burst limit requests in a second, as kubectl does. The default of clients is made for controllers, and would have
// a person who asks for many workloads wait.
const (
	qps   = 50
	burst = 300
)

// Run runs `kubectl liveconfig` with arguments, says what was wrong, and returns the status to end with, as kubectl's.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args ...string) int {
	command := New(streams) //nolint:contextcheck // Its commands get the context when it is executed.
	command.SetArgs(args)
	err := command.ExecuteContext(klog.NewContext(ctx, klog.Logger{})) // What libraries log is about their own ways.
	if err == nil {
		return 0
	}
	status := 1
	if exit, ok := errors.AsType[*exitError](err); ok {
		if exit.err == nil {
			return exit.code
		}
		status = exit.code
	}
	_, _ = fmt.Fprintln(streams.ErrOut, "error:", plain(err.Error())) // Who cannot be told gets the status.
	return status
}

// New returns the command `kubectl liveconfig`.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	s := &session{ConfigFlags: genericclioptions.NewConfigFlags(true), IOStreams: streams}
	s.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.WarningHandler = rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
		c.QPS, c.Burst = qps, burst
		return c
	}
	root := &cobra.Command{
		Use:   "liveconfig",
		Short: "Config that reaches running pods at once, and can be taken back",
		Long: "Looks at and changes volumes of liveconfig, and what triggers rollouts.\n\n" +
			"The driver and the rollout controller do the work: see https://github.com/liveconfig-csi/liveconfig.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl liveconfig"},
		SilenceErrors: true, // The caller prints it, once.
		SilenceUsage:  true, // A page of flags hides what was wrong.
		Args:          subcommandOnly,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	s.AddFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c.HasSubCommands() { // A flag of a subcommand that is misspelt is not the mistake.
			if err := subcommandOnly(c, c.Flags().Args()); err != nil {
				return err
			}
		}
		return &UsageError{fmt.Errorf("%w: see %s --help", err, c.CommandPath())}
	})
	root.AddCommand(newCheck(s), newCompletion(s), newConvert(s), newDescribe(s), newGrant(s), newPreview(s), newRollout(s), newSet(s), newStatus(s), newVersion(s), newWait(s))
	addCompletions(root, s)
	return root
}

// subcommandOnly refuses what is no subcommand, and says which one may be meant.
func subcommandOnly(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	near := c.SuggestionsFor(args[0])
	if len(near) == 0 {
		return usageError("unknown command %q for %q: see %s --help", args[0], c.CommandPath(), c.CommandPath())
	}
	return usageError("unknown command %q for %q, did you mean %s?", args[0], c.CommandPath(), strings.Join(near, " or "))
}

// UsageError is a mistake in the command line.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what the mistake is.
func (e *UsageError) Unwrap() error { return e.Err }

func usageError(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// session is what all commands of one run share: how to reach the API server, and where to print.
type session struct {
	*genericclioptions.ConfigFlags
	genericiooptions.IOStreams
}

// namespace returns the namespace to work in.
func (s *session) namespace() (string, error) {
	namespace, _, err := s.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find out the namespace: %w", err)
	}
	return namespace, nil
}

// config returns how to reach the API server.
func (s *session) config() (*rest.Config, error) {
	config, err := s.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find out how to reach the cluster: %w; say --kubeconfig or --context", err)
	}
	return config, nil
}

// exitError ends the program with a status of its own. It has no error where the status is an answer, and all was said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns what was wrong.
func (e *exitError) Unwrap() error { return e.err }

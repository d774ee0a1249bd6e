// Package cli is the kubectl plugin: `kubectl liveconfig`. Each command has a package below it, and
// this one wires them.
//
// It does not know how volumes are made or rollouts are driven: commands read and write what is in
// the API, with the parsers that the driver and the controller use.
package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/adopt"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/check"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/completion"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/convert"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/describe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/grant"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/preview"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/release"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/set"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/status"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/version"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/wait"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/why"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

// qps and burst limit requests in a second, as kubectl does. The default of clients is made for
// controllers, and would slow down a person that asks for many workloads.
const (
	qps   = 50
	burst = 300
)

// Run runs `kubectl liveconfig` with arguments, prints errors, and returns the exit status, as
// kubectl does.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args ...string) int {
	if len(args) == 1 && args[0] == isolated.Argument {
		if isolated.Main(streams.In, streams.Out) != nil {
			return 1
		}
		return 0
	}
	command := New(streams) //nolint:contextcheck // Its commands get the context when it is executed.
	command.SetArgs(args)
	err := command.ExecuteContext(klog.NewContext(ctx, klog.Logger{})) // Logs of libraries do not help people.
	if err == nil {
		return 0
	}
	status := 1
	if exit, ok := errors.AsType[*session.Exit](err); ok {
		if exit.Err == nil {
			return exit.Code
		}
		status = exit.Code
	}
	_, _ = fmt.Fprintln(streams.ErrOut, "error:", printing.Plain(err.Error())) // If this fails, the status is left.
	return status
}

// New returns the command `kubectl liveconfig`.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	s := &session.Session{ConfigFlags: genericclioptions.NewConfigFlags(true), IOStreams: streams}
	s.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.WarningHandler = rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
		c.QPS, c.Burst = qps, burst
		return c
	}
	root := &cobra.Command{
		Use:   "liveconfig",
		Short: "Config that reaches running pods at once, and can be taken back",
		Long: "Shows which config pods have and why an edit did not arrive, and puts config into pods: ConfigMaps and " +
			"Secrets as\n" +
			"files that change while the pod runs. The driver and the rollout controller, which run in the cluster, do the " +
			"work.",
		Example: "  kubectl liveconfig status                # how many pods have the newest config\n" +
			"  kubectl liveconfig why pod/web-0         # where an edit stopped on its way into the pod\n" +
			"  kubectl liveconfig check -f web.yaml     # mistakes in manifests, without a cluster\n" +
			"  kubectl liveconfig set volume deployment/web --configmap app --mount-path /etc/app",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl liveconfig"},
		SilenceErrors: true, // The caller prints it, once.
		SilenceUsage:  true, // A page of flags hides what was wrong.
		Args:          session.SubcommandOnly,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	s.AddFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c.HasSubCommands() { // A flag of a subcommand that is misspelt is not the mistake.
			if err := session.SubcommandOnly(c, c.Flags().Args()); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: see %s --help", err, c.CommandPath())
	})
	root.AddCommand(adopt.New(s), check.New(s), completion.New(s), convert.New(s), describe.New(s), grant.New(s),
		preview.New(s), release.New(s), rollout.New(s), set.New(s), status.New(s), version.New(s), wait.New(s), why.New(s))
	completion.Register(root, s)
	return root
}

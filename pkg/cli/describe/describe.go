// Package describe is `kubectl liveconfig describe`.
//
// It does not know how a description looks: that is up to pkg/cli/describe/description.
package describe

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/cluster"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/describe/description"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// command is the command with its flags.
type command struct {
	*session.Session
	selection.Selection

	driver   cluster.Flags
	output   printing.Format
	problems bool
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:   "describe TYPE/NAME... | --problems [-A]",
		Short: "Show everything about the volumes of a workload or pod",
		Long: "Shows each volume of liveconfig with its sources, and what else uses ConfigMaps and Secrets; what triggers rollouts;\n" +
			"which version of each object is in the files of the pods, since when, and how far that is behind the API server; what\n" +
			"is wrong; and recent Events. Of a workload, the pods that are not current are shown. The drivers of nodes are\n" +
			"asked through port-forwards; what cannot be found out is listed at the end. Nothing that objects hold is shown.\n\n" +
			"With --problems, all pods of the namespace are looked at, or of all namespaces with -A, and only the volumes are\n" +
			"shown in which something is wrong.\n\n" +
			"The exit code is 1 if something cannot be described at all; what a pod lacks is not an error: see status.",
		Example: "  kubectl liveconfig describe pod/web-0\n" +
			"  kubectl liveconfig describe deployment/web statefulset/db\n" +
			"  kubectl liveconfig describe deployments -l team=shop -o json\n" +
			"  kubectl liveconfig describe -A --problems",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.AddClusterFlags(c)
	o.AddAllNamespacesFlag(c, "all pods of all namespaces, with --problems")
	c.Flags().BoolVar(&o.problems, "problems", false, "only the volumes of all pods in which something is wrong")
	o.driver.AddFlags(c)
	o.output.AddFlag(c, "wide (all pods, not only those that are not current), json or yaml", "wide", "json", "yaml")
	return c
}

func (o *command) run(ctx context.Context, args []string) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	if o.AllNamespaces && !o.problems {
		return usage.Errorf("--all-namespaces would describe every pod: add --problems, or see kubectl liveconfig status -A")
	}
	asked, err := cluster.New(o.Session, o.driver)
	if err != nil {
		return err
	}
	if o.problems {
		return o.listProblems(ctx, asked, args)
	}
	var all []description.Description
	found, err := o.Workloads(o.Session, args)
	d := newDescriber(asked)
	for _, one := range found {
		all = append(all, d.describe(ctx, one.Info.Mapping.GroupVersionKind.Kind, one.Workload))
	}
	if len(all) > 0 {
		err = errors.Join(err, o.print(all))
	}
	return err
}

// shownPods is how many pods of a workload are shown, unless all are wanted.
const shownPods = 5

func (o *command) print(all []description.Description) error {
	text := description.Text{Now: time.Now(), MostPods: shownPods}
	switch o.output.Name {
	case "json", "yaml":
		return o.output.Encode(o.Out, all)
	case "wide":
		text.MostPods = 0
	}
	return o.write(func(page io.Writer) error { return text.Print(page, all) })
}

// write writes a page as a terminal can have it.
func (o *command) write(fill func(io.Writer) error) error {
	var page strings.Builder
	if err := fill(&page); err != nil {
		return err
	}
	_, err := io.WriteString(o.Out, printing.Plain(page.String()))
	return err
}

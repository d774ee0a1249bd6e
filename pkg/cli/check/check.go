// Package check is `kubectl liveconfig check`.
//
// It does not know what a mistake is: that is up to pkg/cli/check/checks.
package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/check/checks"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

// command is the command with its flags.
type command struct {
	*session.Session

	input  manifest.Input
	driver string
	output printing.Format
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Find mistakes in volumes of manifests, without a cluster",
		Long: "Reads every volume of liveconfig in manifests, of whatever kind, as the driver would, and prints all mistakes with their\n" +
			"lines. ConfigMaps and Secrets with the annotation " + release.Annotation + " are checked by its rules, as the controller does\n" +
			"with edits. The exit code is 1 if there are mistakes. What other objects hold is not looked at: see preview.",
		Example: "  kubectl liveconfig check -f web.yaml\n" +
			"  kubectl kustomize . | kubectl liveconfig check -f -\n" +
			"  kubectl liveconfig check -R -f manifests -o json",
		Args: selection.FilesOnly,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	selection.AddManifestFlags(c, &o.input)
	selection.AddDriverFlag(c, &o.driver)
	o.output.AddFlag(c, "json; lines by default", "json")
	return c
}

func (o *command) run(ctx context.Context) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	files, err := selection.ReadManifests(o.Session, o.input)
	if err != nil {
		return err
	}
	process, err := isolated.New()
	if err != nil {
		return err
	}
	checker := checks.Checker{
		Driver: o.driver, Namespace: session.NamespaceOr(o.Session, ""),
		Rules: func(rules []settings.Rule, c validation.Content) ([]validation.Problem, error) {
			return process.Check(ctx, rules, c)
		},
	}
	for _, file := range files {
		checker.File(file)
	}
	findings, checked := checker.Findings()
	if err := o.print(findings); err != nil {
		return err
	}
	return o.verdict(findings, checked)
}

func (o *command) print(findings []checks.Finding) error {
	if o.output.IsEncoded() {
		return o.output.Encode(o.Out, append([]checks.Finding{}, findings...)) // An empty list is [], and not null.
	}
	for _, finding := range findings {
		if _, err := fmt.Fprintln(o.Out, printing.PlainLine(finding.String())); err != nil {
			return err
		}
	}
	return nil
}

// verdict prints the result, and returns an error if there are mistakes.
func (o *command) verdict(findings []checks.Finding, checked checks.Checked) error {
	mistakes := 0
	for _, finding := range findings {
		if finding.Severity == checks.Mistake {
			mistakes++
		}
	}
	switch {
	case mistakes == 1:
		return errors.New("1 mistake")
	case mistakes > 1:
		return fmt.Errorf("%d mistakes", mistakes)
	case checked == checks.Checked{}:
		o.Remark("nothing was checked: the manifests have no volume of %s; use --driver-name if the driver has another name", o.driver)
		return nil
	}
	var what []string
	if checked.Volumes > 0 {
		what = append(what, counted(checked.Volumes, "volume")+" of "+o.driver)
	}
	if checked.Released > 0 {
		what = append(what, counted(checked.Released, "released object"))
	}
	o.Remark("%s checked, no mistakes", strings.Join(what, " and "))
	return nil
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

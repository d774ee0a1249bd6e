// Package check is `kubectl liveconfig check`.
//
// It does not know what a mistake is: that is up to pkg/cli/check/checks.
package check

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/check/checks"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
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
			"lines. The exit code is 1 if there are some. What the objects hold that volumes name is not looked at: see preview.",
		Example: "  kubectl liveconfig check -f web.yaml\n" +
			"  kubectl kustomize . | kubectl liveconfig check -f -\n" +
			"  kubectl liveconfig check -R -f manifests -o json",
		Args: selection.FilesOnly,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	selection.AddManifestFlags(c, &o.input)
	selection.AddDriverFlag(c, &o.driver)
	o.output.AddFlag(c, "json; lines by default", "json")
	return c
}

func (o *command) run() error {
	if err := o.output.Check(); err != nil {
		return err
	}
	files, err := selection.ReadManifests(o.Session, o.input)
	if err != nil {
		return err
	}
	checker := checks.Checker{Driver: o.driver, Namespace: session.NamespaceOr(o.Session, "")}
	for _, file := range files {
		checker.File(file)
	}
	findings, volumes := checker.Findings()
	if err := o.print(findings); err != nil {
		return err
	}
	return o.verdict(findings, volumes)
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
func (o *command) verdict(findings []checks.Finding, volumes int) error {
	mistakes := 0
	for _, finding := range findings {
		if finding.Severity == checks.Mistake {
			mistakes++
		}
	}
	text := fmt.Sprintf("%d volumes of %s checked, no mistakes", volumes, o.driver)
	switch {
	case mistakes == 1:
		return errors.New("1 mistake")
	case mistakes > 1:
		return fmt.Errorf("%d mistakes", mistakes)
	case volumes == 0:
		text = fmt.Sprintf("nothing was checked: the manifests have no volume of %s; say --driver-name if the driver has another name", o.driver)
	case volumes == 1:
		text = fmt.Sprintf("1 volume of %s checked, no mistakes", o.driver)
	}
	o.Remark("%s", text)
	return nil
}

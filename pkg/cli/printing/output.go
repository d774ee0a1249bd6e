package printing

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// Format is --output of a command that prints a report.
type Format struct {
	// Name is json, yaml or another known format, or empty.
	Name  string
	known []string
}

// AddFlag adds --output with the known formats.
func (f *Format) AddFlag(c *cobra.Command, help string, known ...string) {
	f.known = known
	c.Flags().StringVarP(&f.Name, "output", "o", "", help)
	usage.Complete(c, "output", slices.Sorted(slices.Values(known))...)
}

// Check returns an error for a format that is not known.
func (f *Format) Check() error {
	if f.Name == "" || slices.Contains(f.known, f.Name) {
		return nil
	}
	last := len(f.known) - 1
	known := strings.Join(append(slices.Clone(f.known[:max(last-1, 0)]), strings.Join(f.known[max(last-1, 0):], " or ")), ", ")
	return usage.Errorf("--output %q is not known: use %s, or leave it out", f.Name, known)
}

// IsEncoded reports whether the format is for programs.
func (f *Format) IsEncoded() bool { return f.Name == "json" || f.Name == "yaml" }

// Encode writes a report for programs.
func (f *Format) Encode(to io.Writer, report any) error {
	if f.Name == "yaml" {
		text, err := yaml.Marshal(report)
		if err == nil {
			_, err = to.Write(text)
		}
		return err
	}
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// The values of --dry-run.
const (
	DryRunNone   = "none"
	DryRunClient = "client"
	DryRunServer = "server"
)

// Objects is --dry-run and --output of a command that changes objects.
type Objects struct {
	*genericclioptions.PrintFlags

	DryRun string
}

// NewObjects returns flags of a command that reports objects as done, such as updated.
func NewObjects(done string) *Objects {
	return &Objects{PrintFlags: genericclioptions.NewPrintFlags(done).WithTypeSetter(scheme.Scheme)}
}

// AddFlags adds the flags.
func (o *Objects) AddFlags(c *cobra.Command) {
	o.PrintFlags.AddFlags(c)
	c.Flags().StringVar(&o.DryRun, "dry-run", DryRunNone,
		"none, client (only print what would be sent) or server (send it; the server stores nothing)")
	c.Flags().Lookup("dry-run").NoOptDefVal = DryRunClient
	usage.Complete(c, "output", "json", "name", "yaml")
	usage.Complete(c, "dry-run", DryRunNone, DryRunClient, DryRunServer)
}

// HasFormat reports whether the objects themselves are printed, and not what was done to them.
func (o *Objects) HasFormat() bool { return *o.OutputFormat != "" }

// Printer returns the printer that the flags describe.
func (o *Objects) Printer() (printers.ResourcePrinter, error) {
	switch o.DryRun {
	case DryRunNone:
	case DryRunClient, DryRunServer:
		if err := o.Complete(fmt.Sprintf("%%s (%s dry run)", o.DryRun)); err != nil {
			return nil, err
		}
	default:
		return nil, usage.Errorf("--dry-run %q is not none, client or server", o.DryRun)
	}
	printer, err := o.ToPrinter()
	if err != nil {
		return nil, usage.Errorf("%w", err)
	}
	return printer, nil
}

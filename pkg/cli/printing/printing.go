// Package printing prints for people and for programs: tables, lists of names, JSON, YAML and
// objects, and how one text differs from another. It has --output and --dry-run, and escapes what a
// terminal would obey.
//
// It does not know what is printed.
package printing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Table writes rows with aligned columns that have some spaces between them. Each cell stays in its
// place, whatever is in it.
func Table(to io.Writer, spaces int, rows [][]string) error {
	table := tabwriter.NewWriter(to, 0, 0, spaces, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(PlainLine(cell), "\t", `\t`)
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // Flush returns the error.
	}
	return table.Flush()
}

// Time prints a time as the API does.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Names names one thing or a few, and counts many.
func Names(names []string, one, many string) string {
	const most = 5
	switch {
	case len(names) == 1:
		return one + " " + names[0]
	case len(names) <= most:
		return many + " " + strings.Join(names, ", ")
	default:
		return fmt.Sprintf("%d %s (%s and others)", len(names), many, strings.Join(names[:most], ", "))
	}
}

// Plain is a text as a terminal can have it: manifests and objects of others may hold signs that
// move the cursor or turn text around. Lines stay lines.
func Plain(text string) string {
	var b strings.Builder
	for at := 0; at < len(text); {
		sign, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case sign == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[at])
		case sign == '\n', sign == '\t', unicode.IsPrint(sign):
			b.WriteRune(sign)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(sign), "'"))
		}
		at += size
	}
	return b.String()
}

// PlainLine is a text that is one line of what a terminal gets.
func PlainLine(text string) string { return strings.ReplaceAll(Plain(text), "\n", `\n`) }

// None is the name of a side that does not exist.
const None = "/dev/null"

// Unified returns a unified diff of two texts, and "" if they are equal. A nil text does not exist,
// which is another thing than an empty one, and its name is [None]. Of binary data only sizes are
// shown.
func Unified(oldName, newName string, before, after []byte) string {
	if isText(before) && isText(after) && len(before)+len(after) > 0 {
		oldName, newName = names(oldName, newName, before, after)
		_, text, _ := bytes.Cut(diff.Diff(oldName, before, newName, after), []byte("\n")) // The first line is a command.
		return string(text)
	}
	return Masked(oldName, newName, before, after)
}

// Masked is [Unified] without the lines: it shows sizes, and no byte of the texts.
func Masked(oldName, newName string, before, after []byte) string {
	if bytes.Equal(before, after) && (before == nil) == (after == nil) {
		return ""
	}
	oldName, newName = names(oldName, newName, before, after)
	return fmt.Sprintf("--- %s\n+++ %s\n%s\n", oldName, newName, sizes(before, after))
}

// Differ returns a diff of two texts by their names.
type Differ func(oldName, newName string, before, after []byte) string

// names returns the names as a header has them.
func names(oldName, newName string, before, after []byte) (shownOld, shownNew string) {
	if before == nil {
		oldName = None
	}
	if after == nil {
		newName = None
	}
	return oldName, newName
}

func sizes(before, after []byte) string {
	switch {
	case before == nil:
		return "added, " + Counted(len(after), "byte")
	case after == nil:
		return "removed, " + Counted(len(before), "byte")
	default:
		return fmt.Sprintf("changed, %s -> %s", Counted(len(before), "byte"), Counted(len(after), "byte"))
	}
}

// Counted is a number of things with their name.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// isText reports whether a terminal can show it.
func isText(text []byte) bool { return utf8.Valid(text) && !bytes.ContainsRune(text, 0) }

// Format is --output of a command that prints a report.
type Format struct {
	// Name is json, yaml or another known format, or empty.
	Name  string
	known []string
}

// AddFlag adds --output with the known formats. The command fails before it runs if it is given
// another one.
func (f *Format) AddFlag(c *cobra.Command, help string, known ...string) {
	f.known = known
	c.Flags().StringVarP(&f.Name, "output", "o", "", help)
	Complete(c, "output", slices.Sorted(slices.Values(known))...)
	c.PreRunE = func(*cobra.Command, []string) error { return f.check() }
}

func (f *Format) check() error {
	if f.Name == "" || slices.Contains(f.known, f.Name) {
		return nil
	}
	lastTwo := max(len(f.known)-2, 0)
	known := strings.Join(append(slices.Clone(f.known[:lastTwo]), strings.Join(f.known[lastTwo:], " or ")), ", ")
	return fmt.Errorf("--output %q is not known: use %s, or leave it out", f.Name, known)
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
	Complete(c, "output", "json", "name", "yaml")
	Complete(c, "dry-run", DryRunNone, DryRunClient, DryRunServer)
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
		return nil, fmt.Errorf("--dry-run %q is not none, client or server", o.DryRun)
	}
	return o.ToPrinter()
}

// Complete has the shell complete a flag with fixed values.
func Complete(c *cobra.Command, flag string, values ...string) {
	// The flag exists.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

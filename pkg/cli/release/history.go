package release

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// history is the command with its flags.
type history struct {
	target

	output printing.Format
}

func newHistory(s *session.Session) *cobra.Command {
	o := &history{target: target{Session: s}}
	c := &cobra.Command{
		Use:     "history TYPE/NAME",
		Short:   "Show how the last releases of an object ended",
		Long:    "Prints the last ten, newest first. An edit is named by the beginning of its digest: the content is not stored.",
		Example: "  kubectl liveconfig release history configmap/web",
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.output.AddFlag(c, "json or yaml; a table by default", "json", "yaml")
	return c
}

func (o *history) run(ctx context.Context, args []string) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	_, p, err := o.one(ctx, args)
	if err != nil {
		return err
	}
	if p.Copy == nil {
		return errNoCopy(p.Source.Ref)
	}
	entries, err := release.ParseHistory(p.Copy.Annotations[release.HistoryAnnotation])
	if err != nil {
		return err
	}
	if o.output.IsEncoded() {
		return o.output.Encode(o.Out, append([]release.Entry{}, entries...))
	}
	if len(entries) == 0 {
		o.Remark("No release of %s has ended yet.", p.Source.Ref)
		return nil
	}
	rows := [][]string{{"AT", "OUTCOME", "EDIT", "REASON"}}
	for _, e := range entries {
		const enough = 10
		rows = append(rows, []string{printing.Time(e.At), e.Outcome, e.Digest[:min(len(e.Digest), enough)], e.Reason})
	}
	const spaces = 3
	return printing.Table(o.Out, spaces, rows)
}

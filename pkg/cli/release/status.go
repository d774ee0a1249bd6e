package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// status is the command with its flags.
type status struct {
	target

	all, watch bool
	timeout    time.Duration
	output     printing.Format
}

func newStatus(s *session.Session) *cobra.Command {
	o := &status{target: target{Session: s}}
	c := &cobra.Command{
		Use:   "status [TYPE/NAME...]",
		Short: "Show how far edits have come",
		Long: "Prints each released object with its state, its step, and how many pods have what it has now. Without names it prints all of\n" +
			"the namespace. The exit code is 1 if an edit was refused, reverted or frozen, or an annotation is wrong.",
		Example: "  kubectl liveconfig release status\n" +
			"  kubectl liveconfig release status configmap/web --watch",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.addFlags(c)
	flags := c.Flags()
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "of all namespaces")
	flags.BoolVarP(&o.watch, "watch", "w", false, "print each step of one object with a bar, until all pods have its edit or nothing goes on")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "time limit of --watch")
	o.output.AddFlag(c, "json or yaml; a table by default", "json", "yaml")
	return c
}

func (o *status) run(ctx context.Context, args []string) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	client, err := o.Clientset()
	if err != nil {
		return err
	}
	if o.watch {
		if len(args) != 1 || o.output.Name != "" {
			return usage.Errorf("--watch is for one ConfigMap or Secret such as configmap/web, and prints lines")
		}
		return o.follow(ctx, client, args[0])
	}
	views, err := o.views(ctx, client, args)
	if err != nil {
		return err
	}
	if o.output.IsEncoded() {
		err = o.output.Encode(o.Out, append([]view{}, views...))
	} else {
		err = o.table(views)
	}
	if err != nil {
		return err
	}
	return verdict(views)
}

// verdict returns the exit status.
func verdict(views []view) error {
	for _, v := range views {
		if v.State.hasFailed() {
			return &usage.Exit{Code: 1}
		}
	}
	return nil
}

func (o *status) views(ctx context.Context, client kubernetes.Interface, args []string) (views []view, err error) {
	refs, err := o.refs(ctx, client, args)
	if err != nil {
		return nil, err
	}
	pods := map[string][]pod{}
	for _, ref := range refs {
		p, err := read(ctx, client, ref)
		if err != nil {
			return nil, err
		}
		if _, isKnown := pods[ref.Namespace]; !isKnown {
			if pods[ref.Namespace], err = podsIn(ctx, client, o.driver, ref.Namespace); err != nil {
				return nil, err
			}
		}
		views = append(views, p.view(pods[ref.Namespace]))
	}
	return views, nil
}

// refs returns what the arguments name, or all released objects.
func (o *status) refs(ctx context.Context, client kubernetes.Interface, args []string) (refs []api.Ref, err error) {
	if len(args) == 0 {
		namespace := session.NamespaceOr(o.Session, "")
		if o.all {
			namespace = ""
		}
		refs, denied := list(ctx, client, namespace)
		const kinds = 2
		if len(denied) == kinds {
			return nil, errors.Join(denied...)
		}
		for _, err := range denied {
			o.Remark("warning: %v", err)
		}
		if len(refs) == 0 {
			o.Remark("No ConfigMap and no Secret has the annotation %s.", release.Annotation)
		}
		return refs, nil
	}
	if o.all {
		return nil, usage.Errorf("--all-namespaces goes without names")
	}
	for _, argument := range args {
		ref, err := o.refOf(argument)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

func (o *status) table(views []view) error {
	if len(views) == 0 {
		return nil
	}
	header := []string{"NAME", "STATE", "STEP", "PODS", "SINCE", "REASON"}
	if o.all {
		header = append([]string{"NAMESPACE"}, header...)
	}
	rows := [][]string{header}
	for _, v := range views {
		row := []string{v.Object, string(v.State), stepOf(v), podsOf(v), ageOf(v), v.Reason}
		if o.all {
			row = append([]string{v.Namespace}, row...)
		}
		rows = append(rows, row)
	}
	const spaces = 3
	return printing.Table(o.Out, spaces, rows)
}

func stepOf(v view) string {
	if v.Step == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", min(v.Step, v.Steps), v.Steps)
}

func podsOf(v view) string { return fmt.Sprintf("%d/%d", v.Shown, v.Pods) }

func ageOf(v view) string {
	if v.Since.IsZero() {
		return ""
	}
	return duration.HumanDuration(time.Since(v.Since))
}

// interval is how often --watch looks.
const interval = 300 * time.Millisecond

// follow prints a line for each news of an object, until nothing goes on. It looks again when the
// API server could not be asked.
func (o *status) follow(ctx context.Context, client kubernetes.Interface, argument string) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	f := follower{status: o}
	for {
		views, err := o.views(ctx, client, []string{argument})
		switch {
		case ctx.Err() != nil: // The result of a look that was cut short means nothing.
		case err != nil && !session.MayPass(err):
			return err
		case err != nil:
			f.miss(err)
		default:
			if isOver, err := f.see(views); isOver {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return f.timeout(argument, ctx.Err())
		}
	}
}

// follower is what --watch has seen of an object.
type follower struct {
	*status

	last view
	// line and remark are the last ones that were printed.
	line, remark string
	problem      error // Why the last look failed.
}

// miss reports why a look has failed.
func (f *follower) miss(err error) {
	f.problem = err
	f.remark = news(f.remark, "will look again: "+err.Error(), func(text string) { f.Remark("%s", text) })
}

// see prints news, and reports whether nothing goes on, and with which error.
func (f *follower) see(views []view) (isOver bool, err error) {
	f.problem = nil
	f.last, f.remark = views[0], ""
	f.line = news(f.line, bar(f.last), func(text string) { _, err = io.WriteString(f.Out, text+"\n") })
	if err != nil || f.last.State == stateStable || f.last.State.hasFailed() {
		return true, cmp.Or(err, verdict(views))
	}
	return false, nil
}

// timeout returns the error for an object that goes on.
func (f *follower) timeout(argument string, cause error) error {
	if f.last.Object == "" || f.problem != nil {
		return fmt.Errorf("look at %s for %s: %w", argument, f.status.timeout, cmp.Or(f.problem, cause))
	}
	return fmt.Errorf("%s is %s after %s", f.last.Object, f.last.State, f.status.timeout)
}

// news shows a text that is another than the last one, and returns it.
func news(last, text string, show func(string)) string {
	if text != last {
		show(text)
	}
	return text
}

// bar returns a release as one line.
func bar(v view) string {
	const width = 20
	filled := 0
	if v.Pods > 0 {
		filled = v.Shown * width / v.Pods
	}
	parts := []string{v.Object, string(v.State)}
	if step := stepOf(v); step != "" {
		parts = append(parts, "step "+step)
	}
	parts = append(parts, "["+strings.Repeat("#", filled)+strings.Repeat(".", width-filled)+"]", podsOf(v)+" pods")
	if v.State == viewState(release.Progressing) {
		parts = append(parts, "for "+strconv.FormatFloat(v.Pause, 'g', -1, 64)+"s")
	}
	if v.Reason != "" {
		parts = append(parts, printing.PlainLine(v.Reason))
	}
	return strings.Join(parts, "  ")
}

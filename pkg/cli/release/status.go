package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

type status struct {
	target

	all, watch bool
	timeout    time.Duration
	output     printing.Format
}

func newStatus(s *session.Session) *cobra.Command {
	o := &status{target: target{Session: s}}
	c := &cobra.Command{
		Use:         "status [TYPE/NAME...]",
		Annotations: session.Kinds("configmap", "secret"),
		Short:       "Show how far edits have come",
		Long: "Prints each released object with its state, its step, and how many pods have what it has now. Without names " +
			"it prints all of\n" +
			"the namespace. The exit code is 1 if an edit was refused, reverted or frozen, if it is not known that pods have " +
			"it, or if an\n" +
			"annotation is wrong.",
		Example: "  kubectl liveconfig release status\n" +
			"  kubectl liveconfig release status configmap/web --watch",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.addFlags(c)
	flags := c.Flags()
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "of all namespaces")
	flags.BoolVarP(&o.watch, "watch", "w", false,
		"print each step of one object with a bar, until all pods have its edit or nothing goes on")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "time limit of --watch")
	o.output.AddFlag(c, "json or yaml; a table by default", "json", "yaml")
	return c
}

func (o *status) run(ctx context.Context, args []string) error {
	client, err := o.Clientset()
	if err != nil {
		return err
	}
	if o.watch {
		if len(args) != 1 || o.output.Name != "" {
			return errors.New("--watch is for one ConfigMap or Secret such as configmap/web, and prints lines")
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

func verdict(views []view) error {
	for _, v := range views {
		if v.State.hasFailed() || v.State == viewState(release.Waiting) && v.Reason != "" {
			return &session.Exit{Code: 1}
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
		return nil, errors.New("--all-namespaces goes without names")
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

const interval = 300 * time.Millisecond

// follow prints a line for each news of an object, until nothing goes on. It looks again when the
// API server could not be asked.
func (o *status) follow(ctx context.Context, client kubernetes.Interface, argument string) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last view
	var line, remark string // The last ones that were printed.
	var problem error       // Why the last look failed.
	for {
		views, err := o.views(ctx, client, []string{argument})
		switch {
		case ctx.Err() != nil: // The result of a look that was cut short means nothing.
		case err != nil && !session.MayPass(err):
			return err
		case err != nil:
			problem = err
			if text := "will look again: " + err.Error(); text != remark {
				remark = text
				o.Remark("%s", text)
			}
		default:
			last, problem, remark = views[0], nil, ""
			if text := bar(last); text != line {
				line = text
				if _, err := fmt.Fprintln(o.Out, line); err != nil {
					return err
				}
			}
			if last.State == stateStable || last.State.hasFailed() {
				return verdict(views)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return o.late(argument, last, problem, ctx.Err())
		}
	}
}

// late returns the error for an object that goes on, or that could not be looked at.
func (o *status) late(argument string, last view, problem, cause error) error {
	if last.Object == "" || problem != nil {
		return fmt.Errorf("look at %s for %s: %w", argument, o.timeout, cmp.Or(problem, cause))
	}
	return fmt.Errorf("%s is %s after %s", last.Object, last.State, o.timeout)
}

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

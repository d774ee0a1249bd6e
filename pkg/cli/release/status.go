package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

type status struct {
	target

	driver     observe.Flags
	drivers    *drivers // Nil if nobody asks them.
	remarked   map[string]bool
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
		Long: "Prints each released object with its state, its step, and how many pods have what it has now. Of an edit " +
			"that not all pods\n" +
			"have, it prints how many of these pods have it in their files, by the drivers of 20 nodes at most, and how many " +
			"are Ready.\n" +
			"Without names it prints all of the namespace.\n\n" +
			"The exit code is 1 if an edit was refused, reverted or frozen, if it is not known that pods have " +
			"it, or if an\n" +
			"annotation is wrong.",
		Example: "  kubectl liveconfig release status\n" +
			"  kubectl liveconfig release status configmap/web --watch",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.driver.AddFlags(c)
	flags := c.Flags()
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "of all namespaces")
	flags.BoolVarP(&o.watch, "watch", "w", false,
		"print each step of one object, and the pods that hold it up, until all pods have its edit or nothing goes on")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "time limit of --watch")
	o.output.AddFlag(c, "json or yaml; a table by default", "json", "yaml")
	return c
}

func (o *status) run(ctx context.Context, args []string) error {
	cluster, err := observe.New(o.Session, o.driver)
	if err != nil {
		return err
	}
	client := cluster.Client
	o.drivers = &drivers{cluster.Drivers, map[string]answer{}}
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
	o.remarkUnasked(views)
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
	var pairs []pair
	pods := map[string][]pod{}
	for _, ref := range refs {
		p, err := read(ctx, client, ref)
		if err != nil {
			return nil, err
		}
		if _, isKnown := pods[ref.Namespace]; !isKnown {
			if pods[ref.Namespace], err = podsIn(ctx, client, o.driver.Driver, ref.Namespace); err != nil {
				return nil, err
			}
		}
		pairs, views = append(pairs, p), append(views, p.view(pods[ref.Namespace]))
	}
	disagree(pairs, views)
	if o.drivers == nil {
		return views, nil
	}
	for i, p := range pairs { // After the reads: nodes have at least these versions, or lag.
		version := statusz.Version{UID: string(p.Source.UID), ResourceVersion: p.Source.Version}
		views[i].addEvidence(ctx, o.drivers, version, p.Source.Ref)
	}
	return views, nil
}

// remarkUnasked prints which drivers could not be asked, each reason once.
func (o *status) remarkUnasked(views []view) {
	for _, v := range views {
		for _, u := range v.unasked {
			if o.remarked[u.Why] {
				continue
			}
			if o.remarked == nil {
				o.remarked = map[string]bool{}
			}
			o.remarked[u.Why] = true
			o.Remark("note: what is in the files of pods is not known of %s: the driver cannot be asked: %s; see %s",
				printing.Names(u.Nodes, "node", "nodes"), u.Why, u.Type)
		}
	}
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
	header := []string{"NAME", "STATE", "STEP", "PODS", "FILES", "READY", "SINCE", "REASON"}
	if o.all {
		header = append([]string{"NAMESPACE"}, header...)
	}
	rows := [][]string{header}
	for _, v := range views {
		row := []string{v.Object, string(v.State), stepOf(v), podsOf(v), filesOf(v), readyOf(v), ageOf(v), v.Reason}
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

// filesOf returns how many of the pods that were asked about have the edit in their files.
func filesOf(v view) string {
	switch {
	case v.InFiles != nil:
		return fmt.Sprintf("%d/%d", *v.InFiles, v.Asked)
	case v.Asked > 0:
		return "?"
	}
	return ""
}

func readyOf(v view) string {
	if v.Ready == nil || v.Shown == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", *v.Ready, v.Shown)
}

func ageOf(v view) string {
	if v.Since.IsZero() {
		return ""
	}
	return duration.HumanDuration(time.Since(v.Since))
}

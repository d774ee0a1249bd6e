// Package status is `kubectl liveconfig status`.
//
// It does not know when a pod is current: that is up to pkg/cli/versions.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
)

// exitLags is the status that the program ends with when some pods do not have what the API has.
const exitLags = 2

type command struct {
	*session.Session
	selection.Selection

	driver observe.Flags
	output printing.Format
	// isFleet means that all pods of a scope are looked at, and no workloads.
	isFleet bool
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:         "status [TYPE/NAME... [OBJECT...] | -A [OBJECT...]]",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset", "pod", "configmap", "secret"),
		Short:       "Show how many pods have the newest config",
		Long: "Shows for each source of the volumes of liveconfig how many of the running pods have the version that " +
			"the API server\n" +
			"has, and which pods lag behind, since when and why. The drivers of the pods' nodes are asked through " +
			"port-forwards,\n" +
			"as `kubectl port-forward` does. Of an object that triggers rollouts, pods have copies: the newest is " +
			"the one with\n" +
			"what the object holds now. With OBJECTs, only those are looked at.\n\n" +
			"Without a TYPE, all pods of the namespace are counted, and with -A those of all namespaces. Those that " +
			"are not\n" +
			"current are grouped by reason, node and version of the driver. `describe --problems` lists them.\n\n" +
			"The exit code is 0 if all pods have the newest versions, 2 if some do not, and 1 if that is not known of all.",
		Example: "  kubectl liveconfig status deployment/web\n" +
			"  kubectl liveconfig status deployment/web configmap/app -o wide\n" +
			"  kubectl liveconfig status deployments -l team=shop\n" +
			"  kubectl liveconfig status -n shop\n" +
			"  kubectl liveconfig status -A\n" +
			"  kubectl liveconfig status -A -l team=shop secret/tls\n" +
			"  kubectl liveconfig status deployment/web -o name | xargs --no-run-if-empty kubectl delete",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.AddClusterFlags(c)
	o.AddAllNamespacesFlag(c, "all pods of all namespaces, in groups")
	o.driver.AddFlags(c)
	o.output.AddFlag(c, "wide (all pods, not only those that lag; without a TYPE all groups, and the pods that lag), "+
		"json, yaml, or name (of the pods that lag)",
		"wide", "json", "yaml", "name")
	return c
}

func (o *command) run(ctx context.Context, args []string) error {
	targets, objects, err := selection.SplitTriggers(args)
	if err != nil {
		return err
	}
	isAnySelected := len(targets)+len(objects) > 0 || o.FromFiles() || o.All
	o.isFleet = o.AllNamespaces || !isAnySelected
	find := o.named
	if o.isFleet {
		find = o.fleet
	}
	asked, err := observe.New(o.Session, o.driver)
	if err != nil {
		return err
	}
	workloads, err := find(ctx, asked, targets, objects)
	none, isEmpty := errors.AsType[*observe.NoPodsError](err)
	if isEmpty {
		o.Remark("note: %s", none.Reason)
		err = nil
	}
	all, errOfJudge := o.judge(ctx, asked, workloads)
	err = errors.Join(err, errOfJudge)
	if len(all) > 0 || isEmpty {
		err = errors.Join(err, o.print(all))
	}
	return verdictOf(all, err)
}

// named finds the pods of workloads. It may return an error with what it found all the same.
func (o *command) named(
	ctx context.Context, c *observe.Cluster, targets []string, objects []api.Ref,
) ([]*observe.Workload, error) {
	if len(targets) == 0 && len(objects) > 0 && !o.FromFiles() {
		return nil, fmt.Errorf("name the workload that shows %s before it, such as deployment/web %[1]s", objects[0])
	}
	found, err := o.Workloads(o.Session, targets)
	var workloads []*observe.Workload
	errs, foreign := []error{err}, []error{}
	for _, one := range found {
		t, err := c.FindPods(ctx, one.Workload, objects)
		_, isForeign := errors.AsType[*observe.ForeignError](err)
		if err != nil {
			err = fmt.Errorf("%s: %w", selection.Subject(one.Info), err)
		}
		if isForeign {
			foreign = append(foreign, err)
			continue
		}
		errs = append(errs, err)
		if t != nil {
			t.Name = selection.Subject(one.Info)
			workloads = append(workloads, t)
		}
	}
	if isNamed := !o.All && o.Selector == "" && !o.FromFiles(); isNamed || len(workloads) == 0 {
		errs = append(errs, foreign...)
	}
	return workloads, errors.Join(errs...)
}

func (o *command) fleet(
	ctx context.Context, c *observe.Cluster, targets []string, objects []api.Ref,
) ([]*observe.Workload, error) {
	scope, err := o.Scope(o.Session, "--all-namespaces", targets)
	if err != nil {
		return nil, err
	}
	if o.AllNamespaces && o.output.Name == "name" {
		return nil, errors.New("-o name has no namespaces: use -o json or -o wide with --all-namespaces")
	}
	return c.FindFleet(ctx, scope, objects)
}

func verdictOf(all []workloadStatus, err error) error {
	if err != nil {
		return err
	}
	lags, unknowns := len(podsIn(all, versions.Lagging)), len(podsIn(all, versions.Unknown))
	total := len(podsIn(all, versions.Current, versions.Lagging, versions.Unknown))
	switch {
	case unknowns > 0:
		return fmt.Errorf("what %d of %d pods have is not known", unknowns, total)
	case lags > 0:
		return &session.Exit{Code: exitLags, Err: fmt.Errorf("%d of %d pods do not have the newest of all", lags, total)}
	}
	for _, w := range all {
		if w.Rollout != nil && w.Rollout.Waits {
			return &session.Exit{Code: exitLags, Err: fmt.Errorf("%s: an edit is not rolled out: %s", w.Workload, w.Rollout)}
		}
	}
	return nil
}

func podsIn(all []workloadStatus, states ...versions.State) []types.NamespacedName {
	var pods []types.NamespacedName
	for _, w := range all {
		for _, s := range w.Sources {
			for _, p := range s.Pods {
				if slices.Contains(states, p.State) {
					pods = append(pods, types.NamespacedName{Namespace: w.Namespace, Name: p.Pod})
				}
			}
		}
	}
	slices.SortFunc(pods, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(pods)
}

// judge observes the pods, and remarks on nodes that do not answer and objects that it cannot read.
func (o *command) judge(
	ctx context.Context, c *observe.Cluster, workloads []*observe.Workload,
) ([]workloadStatus, error) {
	observed := c.Observe(ctx, workloads, nil)
	for _, group := range nodes.UnaskedIn(observed.Answers) {
		o.Remark("the driver cannot be asked on %s: %s; see %s", printing.Names(group.Nodes, "node", "nodes"), group.Why,
			group.Type)
	}
	notes := map[api.Ref]string{}
	for object, found := range observed.Objects {
		switch {
		case found.Err == nil:
		case ctx.Err() != nil:
			return nil, found.Err
		default:
			notes[object] = noteOf(object, found, workloads)
		}
	}
	o.remark(slices.Sorted(maps.Values(notes)))
	var all []workloadStatus
	for _, t := range workloads {
		all = append(all, judged{t, observed, notes}.status())
	}
	return all, nil
}

func (o *command) print(all []workloadStatus) error {
	text := table{wide: o.output.Name == "wide", now: time.Now()}
	switch {
	case o.output.Name == "name":
		_, err := io.WriteString(o.Out, names(all))
		return err
	case o.isFleet && o.output.IsEncoded():
		return o.output.Encode(o.Out, fleetOf(all))
	case o.isFleet:
		return text.writeFleet(o.Out, fleetOf(all))
	case o.output.IsEncoded():
		return o.output.Encode(o.Out, all)
	default:
		return text.write(o.Out, all)
	}
}

func names(all []workloadStatus) string {
	var lines []string
	for _, pod := range podsIn(all, versions.Lagging) {
		lines = append(lines, "pod/"+pod.Name+"\n")
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "")
}

func (o *command) remark(notes []string) {
	for i, note := range notes {
		if i == mostRows {
			o.Remark("note: and %d more", len(notes)-mostRows)
			return
		}
		o.Remark("note: %s", note)
	}
}

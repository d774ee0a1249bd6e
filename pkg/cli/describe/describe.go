// Package describe is `kubectl liveconfig describe`.
//
// It does not know when a pod is current: that is up to pkg/cli/versions.
package describe

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/reloaders"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

type command struct {
	*session.Session
	selection.Selection

	driver   observe.Flags
	output   printing.Format
	problems bool
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use: "describe TYPE/NAME... | --problems [-A]",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset", "pod", "configmap", "secret", "job", "cronjob",
			"replicaset"),
		Short: "Show everything about the volumes of a workload or pod, or who uses an object",
		Long: "Shows each volume of liveconfig with its sources, and what else uses ConfigMaps and Secrets; what " +
			"triggers rollouts;\n" +
			"which version of each object is in the files of the pods, since when, and how far that is behind the API " +
			"server; what\n" +
			"is wrong; and recent Events. Of a workload, the pods that are not current are shown. The drivers of nodes are\n" +
			"asked through port-forwards; what cannot be found out is listed at the end. Nothing that objects hold " +
			"is shown.\n\n" +
			"Containers that run liveconfig-reload are asked for their last result through the API server's proxy of pods,\n" +
			"and pods whose last reload failed are shown, too.\n\n" +
			"Of a ConfigMap or Secret, the workloads and pods of its namespace are shown that use it, and when an edit " +
			"reaches\n" +
			"them; with -A, those of all namespaces.\n\n" +
			"With --problems, all pods of the namespace are looked at, or of all namespaces with -A, and only the " +
			"volumes are\n" +
			"shown in which something is wrong.\n\n" +
			"The exit code is 1 if something cannot be described at all; what a pod lacks is not an error: see status.",
		Example: "  kubectl liveconfig describe pod/web-0\n" +
			"  kubectl liveconfig describe configmap/web secret/tls\n" +
			"  kubectl liveconfig describe deployment/web statefulset/db\n" +
			"  kubectl liveconfig describe deployments -l team=shop -o json\n" +
			"  kubectl liveconfig describe -A --problems",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.AddClusterFlags(c)
	o.AddAllNamespacesFlag(c, "all namespaces, with --problems or for an object")
	c.Flags().BoolVar(&o.problems, "problems", false, "only the volumes of all pods in which something is wrong")
	o.driver.AddFlags(c)
	o.output.AddFlag(c, "wide (all pods, not only those that are not current), json or yaml", "wide", "json", "yaml")
	return c
}

func (o *command) run(ctx context.Context, args []string) error {
	targets, objects, err := selection.SplitTriggers(args)
	if err != nil {
		return err
	}
	if o.AllNamespaces && !o.problems && (len(targets) > 0 || len(objects) == 0) {
		return errors.New("--all-namespaces would describe every pod: add --problems, or see kubectl liveconfig status -A")
	}
	asked, err := observe.New(o.Session, o.driver)
	if err != nil {
		return err
	}
	if o.problems {
		return o.listProblems(ctx, asked, args)
	}
	config, err := o.Config()
	if err != nil {
		return err
	}
	asker, err := reloaders.New(config)
	if err != nil {
		return err
	}
	var all []Description
	var found []selection.Chosen
	if len(targets) > 0 || len(objects) == 0 {
		found, err = o.Workloads(o.Session, targets)
	}
	d := newDescriber(asked, asker)
	for _, one := range found {
		all = append(all, d.describe(ctx, one.Info.Mapping.GroupVersionKind.Kind, one.Workload))
	}
	usages, errOfUsages := o.usages(ctx, asked, objects)
	err = errors.Join(err, errOfUsages)
	if len(all)+len(usages) > 0 {
		err = errors.Join(err, o.print(all, usages))
	}
	return err
}

// usages finds out who uses objects. It looks at the pods once for all of them.
func (o *command) usages(ctx context.Context, asked *observe.Cluster, objects []api.Ref) ([]*Usage, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	scope := selection.Scope{Namespace: session.NamespaceOr(o.Session, "")}
	for i := range objects {
		objects[i] = objects[i].In(scope.Namespace)
	}
	if o.AllNamespaces {
		scope.Namespace = ""
	}
	return usagesOf(ctx, asked, scope, objects)
}

const shownPods = 5

func (o *command) print(all []Description, usages []*Usage) error {
	p := &page{now: time.Now(), mostPods: shownPods}
	switch o.output.Name {
	case "json", "yaml":
		reports := make([]any, 0, len(all)+len(usages))
		for _, d := range all {
			reports = append(reports, d)
		}
		for _, u := range usages {
			reports = append(reports, u)
		}
		return o.output.Encode(o.Out, reports)
	case "wide":
		p.mostPods = 0
	}
	p.format(all...)
	p.usages(usages)
	p.missingRoles()
	return o.write(p.text.String())
}

// write writes a page as a terminal can have it.
func (o *command) write(page string) error {
	_, err := io.WriteString(o.Out, printing.Plain(page))
	return err
}

func (o *command) listProblems(ctx context.Context, asked *observe.Cluster, args []string) error {
	scope, err := o.Scope(o.Session, "--problems", args)
	if err != nil {
		return err
	}
	if o.output.Name == "wide" {
		return errors.New("-o wide shows all pods and --problems some: leave one out")
	}
	found, err := newDescriber(asked, nil).problems(ctx, scope)
	if err != nil {
		return err
	}
	if o.output.IsEncoded() {
		return o.output.Encode(o.Out, found)
	}
	return o.write((&page{now: time.Now()}).printProblems(found))
}

// problems looks at the pods of a scope as at those of one workload, without what is the same for
// pods of a template.
func (t *describer) problems(ctx context.Context, scope selection.Scope) (Problems, error) {
	all, looked, err := t.Pods(ctx, scope)
	if err != nil {
		return Problems{}, err
	}
	d := &report{describer: t, observed: &observe.Workload{}}
	for _, pod := range all {
		d.addPod(pod)
	}
	d.ask(ctx)
	isStarted := func(pod *observe.Pod) bool { return pod.Status.Phase != corev1.PodPending }
	waiting := slices.DeleteFunc(slices.Clone(d.observed.Running), isStarted)
	mounts := t.FailedMounts(ctx, scope.Namespace, waiting)
	found := Problems{Looked: looked, Problems: []Problem{}, Unknown: slices.Concat([]Unknown{}, d.Unknown)}
	for i, pod := range d.observed.Running {
		found.add(pod.Namespace, d.Pods[i], pod.CreationTimestamp.Time, mounts[string(pod.UID)])
	}
	return found, ctx.Err()
}

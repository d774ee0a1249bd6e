package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	rolled "github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

type rolloutUndo struct {
	rolloutTargets
	*session.Session

	output     *printing.Objects
	toRevision int64
	force      bool
	secrets    bool
}

func newRolloutUndo(s *session.Session) *cobra.Command {
	o := &rolloutUndo{Session: s, output: printing.NewObjects("rolled back")}
	c := &cobra.Command{
		Use:         "undo TYPE/NAME",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset"),
		Short:       "Take a workload back to a revision and its config",
		Long: "Does what `kubectl rollout undo` does, if the config of that revision is still there: pods whose copies are " +
			"gone cannot\n" +
			"start. What the sources hold stays as it is. With --dry-run it shows how the config would change.",
		Example: "  kubectl liveconfig rollout undo deployment/web\n" +
			"  kubectl liveconfig rollout undo deployment/web --to-revision=3 --dry-run\n" +
			"  kubectl liveconfig rollout undo statefulset/db --force",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.addFlags(c)
	o.output.AddFlags(c)
	flags := c.Flags()
	flags.Int64Var(&o.toRevision, "to-revision", 0, "revision to go to; the one before the newest by default")
	flags.BoolVar(&o.force, "force", false, "go to a revision also if copies of its config are gone")
	flags.BoolVar(&o.secrets, "show-secrets", false, "with --dry-run: show values of Secrets")
	return c
}

func (o *rolloutUndo) run(ctx context.Context, args []string) error {
	if o.toRevision < 0 {
		return fmt.Errorf("--to-revision %d is not a revision: revisions are numbered from 1", o.toRevision)
	}
	printer, err := o.output.Printer()
	if err != nil {
		return err
	}
	client, err := o.Clientset()
	if err != nil {
		return err
	}
	return o.Each(o.Session, args, func(info *resource.Info) error {
		u := undo{rolloutUndo: o, client: client, info: info}
		return u.run(ctx, printer)
	})
}

type undo struct {
	*rolloutUndo

	client kubernetes.Interface
	info   *resource.Info

	objects *observe.Objects
	history revisions.History
	target  revisions.Revision
	// missing describes what --force disregards.
	missing []string
}

func (u *undo) run(ctx context.Context, printer printers.ResourcePrinter) error {
	var after runtime.Object
	// The workload may have changed since: the status of a rollout that fails does so all the
	// time.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var err error
		if u.objects != nil { // It is tried again.
			if err = u.info.Get(); err != nil {
				return fmt.Errorf("read it again: %w", err)
			}
			if err = selection.AsTyped(u.info); err != nil {
				return err
			}
		}
		after, err = u.attempt(ctx)
		return err
	})
	switch {
	case err != nil:
		return err
	case after == nil && u.output.HasFormat():
		return printer.PrintObj(u.info.Object, u.Out)
	case after == nil:
		_, err := fmt.Fprintf(u.Out, "%s skipped rollback (current template already matches revision %d)\n", fullName(u.info),
			u.target.Number)
		u.remarkBlocking(ctx)
		return err
	}
	if u.output.DryRun != printing.DryRunNone && !u.output.HasFormat() {
		from, _ := u.history.Current() // Empty for a template that is not a revision yet: its config is not known.
		diff := configDiff{Session: u.Session, objects: u.objects, sourcesNow: true, secrets: u.secrets}
		if err := diff.show(ctx, from, u.target); err != nil {
			return err
		}
	}
	if err := u.print(after, printer); err != nil {
		return err
	}
	u.remarkEffect(after)
	u.remarkBlocking(ctx)
	return nil
}

// attempt checks and sends, and returns what the workload is then: nil if it is of that revision
// already.
func (u *undo) attempt(ctx context.Context) (runtime.Object, error) {
	var err error
	u.objects = observe.NewObjects(u.client)
	if u.history, err = observe.HistoryOf(ctx, u.client, u.info.Object, u.driver); err != nil {
		return nil, err
	}
	if u.target, err = u.history.Target(u.toRevision); err != nil {
		return nil, err
	}
	switch {
	case u.target.Current:
		return nil, nil //nolint:nilnil // There is nothing to do, and no object.
	case u.history.Workload.Paused:
		return nil, fmt.Errorf("it is paused, so nothing of an undo would reach pods: first type kubectl liveconfig "+
			"rollout resume %s", u.history.Workload.Ref)
	}
	if err := u.check(ctx); err != nil {
		return nil, err
	}
	return u.send()
}

// check returns an error if pods of the revision could not start for want of their config.
func (u *undo) check(ctx context.Context) error {
	u.missing = u.lost(ctx, u.target)
	if len(u.missing) == 0 || u.force {
		return nil
	}
	var whole []revisions.Revision
	for _, r := range u.history.Revisions {
		if !r.Current && r.Problem == nil && len(u.lost(ctx, r)) == 0 {
			whole = append(whole, r)
		}
	}
	return fmt.Errorf("pods of revision %d could not start: %s. Revisions to which it can go: %s (--to-revision). To go "+
		"there all the same: --force",
		u.target.Number, strings.Join(u.missing, "; "), revisions.Numbers(whole))
}

// lost returns which copies of a revision's config are not there, unless the controller can make
// them again.
func (u *undo) lost(ctx context.Context, r revisions.Revision) []string {
	var lost []string
	for _, item := range r.Items {
		switch state, err := stateOf(ctx, u.objects, r, item); state {
		case stateWrong:
			lost = append(lost, err.Error())
		case stateGone:
			if source := u.objects.Of(ctx, item.Source.In(r.Namespace)); source.CopyName == item.Copy {
				continue // It still has that content.
			}
			lost = append(lost, fmt.Sprintf("%s, its copy of %s, is gone, and %s has another content now", item.Used(),
				item.Source, item.Source))
		default:
		}
	}
	return lost
}

// send sends the template of the revision, as kubectl does, for the version of the workload that
// was checked.
func (u *undo) send() (runtime.Object, error) {
	if u.output.DryRun == printing.DryRunClient {
		return u.applied(), nil
	}
	kind, patch, err := u.patch()
	if err != nil {
		return nil, err
	}
	sent := *u.info
	helper := resource.NewHelper(u.info.Client, u.info.Mapping).WithFieldManager(edit.FieldManager)
	sent.Object, err = helper.DryRun(u.output.DryRun == printing.DryRunServer).Patch(u.info.Namespace, u.info.Name, kind,
		patch, nil)
	if err != nil {
		return nil, fmt.Errorf("write it: %w", err)
	}
	err = selection.AsTyped(&sent)
	return sent.Object, err
}

func (u *undo) patch() (types.PatchType, []byte, error) {
	w := u.history.Workload
	if w.Kind == rolled.Deployment {
		patch, err := json.Marshal([]map[string]any{
			{"op": "replace", "path": "/metadata/resourceVersion", "value": w.ResourceVersion},
			{"op": "replace", "path": "/spec/template", "value": revisions.Plain(u.target.Template)},
			{"op": "add", "path": "/metadata/annotations", "value": u.annotations()},
		})
		return types.JSONPatchType, patch, err
	}
	var patch map[string]any
	if err := json.Unmarshal(u.target.Data, &patch); err != nil {
		return "", nil, fmt.Errorf("read revision %d: %w", u.target.Number, err)
	}
	patch["metadata"] = map[string]any{"resourceVersion": w.ResourceVersion}
	text, err := json.Marshal(patch)
	return types.StrategicMergePatchType, text, err
}

// annotations returns those of a Deployment after the undo: what the revision has, but for what
// belongs to the Deployment itself.
func (u *undo) annotations() map[string]string {
	own := func(key string) bool {
		return key == corev1.LastAppliedConfigAnnotation || key == appsv1.DeprecatedRollbackTo || slices.Contains([]string{
			"deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history",
			"deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas",
		}, key)
	}
	annotations := maps.Clone(u.history.Workload.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !own(key) })
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range u.target.Annotations {
		if !own(key) {
			annotations[key] = value
		}
	}
	return annotations
}

func (u *undo) applied() runtime.Object {
	after := u.info.Object.DeepCopyObject()
	w, _ := selection.AsWorkload(after) // An object with revisions has pods.
	*w.Template = *revisions.Plain(u.target.Template)
	if u.history.Workload.Kind == rolled.Deployment {
		w.Meta.Annotations = u.annotations()
	}
	return after
}

func (u *undo) print(after runtime.Object, printer printers.ResourcePrinter) error {
	if u.output.HasFormat() {
		return printer.PrintObj(after, u.Out)
	}
	suffix := ""
	if u.output.DryRun != printing.DryRunNone {
		suffix = " (" + u.output.DryRun + " dry run)"
	}
	_, err := fmt.Fprintf(u.Out, "%s rolled back to revision %d%s\n", fullName(u.info), u.target.Number, suffix)
	return err
}

func (u *undo) remarkEffect(after runtime.Object) {
	w, _ := selection.ViewOf(after)
	ref := u.history.Workload.Ref
	if len(u.missing) > 0 {
		u.Remark("note: %s: pods of revision %d cannot start as it is: %s", ref, u.target.Number,
			strings.Join(u.missing, "; "))
	}
	_, _, triggered := reloader.Wanted(w.Annotations, w.Template)
	switch {
	case !u.history.OptedIn && !triggered:
		return // The controller has no part in it.
	case !triggered:
		u.Remark("note: %s was triggered by nothing at revision %d, and is not any more: no edit is rolled out until "+
			"kubectl liveconfig set trigger %s",
			ref, u.target.Number, ref)
		return
	}
	for _, item := range u.target.Items {
		if item.IsSource() {
			u.Remark("note: revision %d uses %s itself: its pods get what that holds now", u.target.Number, item.Source)
		}
		if item.Unused != "" {
			u.Remark("note: %s triggers rollouts and pods do not use it: an undo does not change what it holds", item.Source)
		}
	}
	from, found := u.history.Current()
	switch {
	case found && len(revisions.Changes(from.Items, u.target.Items)) == 0:
		u.Remark("note: the config stays as it is: revision %d has the same", u.target.Number)
	case u.history.Mark.IsFor(u.target.Config):
		u.Remark("note: this is the config that was rolled out last: nothing is undone any more, and edits are rolled out")
	default:
		u.remarkHold(w.Annotations)
	}
}

// remarkBlocking prints which pods somebody has to delete before the pods get the revision.
func (u *undo) remarkBlocking(ctx context.Context) {
	w := u.history.Workload
	if pods := observe.BlockingPods(ctx, u.client, w, u.target.Name); len(pods) > 0 {
		u.Remark("note: %s", state.ByPods(w.Ref, pods))
	}
}

// remarkHold prints how long the config of the undo stays.
func (u *undo) remarkHold(annotations map[string]string) {
	ref := u.history.Workload.Ref
	sources := "what triggers it"
	if len(u.history.Triggers) > 0 {
		sources = strings.ReplaceAll(trigger.Format(u.history.Triggers), ",", " or ")
	}
	// Where the revision has no value, the controller restores that of the Deployment.
	if cmp.Or(annotations[trigger.AfterUndo], u.history.Workload.Annotations[trigger.AfterUndo]) == trigger.Pause {
		u.Remark("note: the config stays until kubectl liveconfig rollout resume %s: edits of %s wait", ref, sources)
		return
	}
	u.Remark("note: the config stays until somebody edits %s, which is rolled out; to hold edits back: kubectl "+
		"annotate %s %s=%s",
		sources, ref, trigger.AfterUndo, trigger.Pause)
}

// Package rollout is `kubectl liveconfig rollout`: history, undo, pause and resume.
//
// It does not know how a rollout is driven: the controller does that.
package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	c := session.Group(&cobra.Command{
		Use:   "rollout",
		Short: "Look at revisions of config, go back to one, and hold edits back",
		Long: "Shows and changes the revisions of a workload, as `kubectl rollout` does, with the config that the " +
			"pods of each revision\n" +
			"have. For status and restart, use `kubectl rollout`.",
	})
	c.AddCommand(newRolloutHistory(s), newRolloutUndo(s), newRolloutPause(s), newRolloutResume(s))
	return c
}

type rolloutTargets struct {
	selection.Selection

	driver string
}

func (o *rolloutTargets) addFlags(c *cobra.Command) {
	o.AddClusterFlags(c)
	selection.AddDriverFlag(c, &o.driver)
}

// fullName is how kubectl prints an object, such as deployment.apps/web.
func fullName(info *resource.Info) string {
	kind := info.Mapping.GroupVersionKind
	return strings.ToLower(kind.Kind) + "." + kind.Group + "/" + info.Name
}

type configDiff struct {
	*session.Session

	objects *observe.Objects
	// sourcesNow shows what a source holds now for a revision that uses the source itself: the
	// content of that time is not stored.
	sourcesNow bool
	secrets    bool
}

func (d configDiff) show(ctx context.Context, from, to revisions.Revision) error {
	for _, change := range revisions.Changes(from.Items, to.Items) {
		before, okBefore := d.side(ctx, from, change.From)
		after, okAfter := d.side(ctx, to, change.To)
		if !okBefore || !okAfter {
			continue // A remark has explained it.
		}
		if err := d.object(change, before, after); err != nil {
			return err
		}
	}
	return nil
}

// side returns the data that a revision has of a source; nil if it does not use it. It prints what
// cannot be known.
func (d configDiff) side(ctx context.Context, of revisions.Revision, item *revisions.Item) (map[string][]byte, bool) {
	switch {
	case item == nil || item.Absent:
		return nil, true
	case item.Unused != "":
		d.Remark("note: revision %d does not use %s, which triggered its rollout: what that held then is not stored",
			of.Number, item.Source)
		return nil, false
	case item.IsSource() && !d.sourcesNow:
		d.Remark("note: revision %d uses %s itself: what that held then is not stored", of.Number, item.Source)
		return nil, false
	}
	is := d.objects.Of(ctx, item.Used().In(of.Namespace))
	switch {
	case is.Err != nil:
		d.Remark("note: what revision %d has of %s cannot be shown: read %s: %v", of.Number, item.Source, item.Used(), is.Err)
		return nil, false
	case !is.Exists() && item.IsSource():
		return nil, true
	case !is.Exists():
		d.Remark("note: what revision %d has of %s cannot be shown: its copy %s is gone", of.Number, item.Source, item.Copy)
		return nil, false
	default:
		return is.Content.Data, true
	}
}

func (d configDiff) object(change revisions.Change, before, after map[string][]byte) error {
	differ := printing.Differ(printing.Unified)
	if change.Source.Kind == api.Secret && !d.secrets {
		differ = printing.Masked
	}
	oldName, newName := nameIn(change.From, change.Source), nameIn(change.To, change.Source)
	keys := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		text := differ(oldName+"/"+key, newName+"/"+key, valueOf(before, key), valueOf(after, key))
		if _, err := fmt.Fprint(d.Out, printing.Plain(text)); err != nil {
			return err
		}
	}
	return nil
}

// valueOf returns nil for a key that is not there, and something else for one with an empty value.
func valueOf(data map[string][]byte, key string) []byte {
	value, found := data[key]
	if found && value == nil {
		return []byte{}
	}
	return value
}

func nameIn(item *revisions.Item, source api.Ref) string {
	if item == nil {
		return source.String()
	}
	return item.Used().String()
}

func newRolloutPause(s *session.Session) *cobra.Command {
	o := edit.New(s, "paused")
	c := &cobra.Command{
		Use:         "pause deployment/NAME",
		Annotations: session.Kinds("deployment"),
		Short:       "Hold back all changes of a Deployment, edits of its config too",
		Long: "Does what `kubectl rollout pause` does: nothing of a Deployment is rolled out, neither changes of its pod " +
			"template nor\n" +
			"edits of what triggers it, until it is resumed. Then all is one rollout. Kubernetes can pause Deployments only.",
		Example: "  kubectl liveconfig rollout pause deployment/web",
		RunE:    func(c *cobra.Command, args []string) error { return o.ChangeEach(args, pause) },
	}
	o.AddClusterFlags(c)
	o.Output.AddFlags(c)
	return c
}

func pause(info *resource.Info, w selection.Workload) ([]string, error) {
	ref, _ := selection.ViewOf(info.Object)
	deployment, ok := w.Object.(*appsv1.Deployment)
	switch {
	case !ok:
		return nil, fmt.Errorf("only Deployments can be paused; to change pods only when you delete them: "+
			"kubectl patch %s -p '{\"spec\":{\"updateStrategy\":{\"type\":\"OnDelete\",\"rollingUpdate\":null}}}'; "+
			"to hold edits back after an undo: kubectl annotate %s %s=%s", ref, ref, trigger.AfterUndo, trigger.Pause)
	case deployment.Spec.Paused:
		return nil, errors.New("it is paused already")
	}
	deployment.Spec.Paused = true
	const follows = "neither edits of config nor other changes of %s are rolled out until kubectl liveconfig " +
		"rollout resume %[1]s"
	return []string{fmt.Sprintf(follows, ref)}, nil
}

func newRolloutResume(s *session.Session) *cobra.Command {
	o := edit.New(s, "resumed")
	c := &cobra.Command{
		Use:         "resume TYPE/NAME",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset"),
		Short:       "Roll out edits again, after a pause or an undo",
		Long: "Ends the pause of a Deployment, as `kubectl rollout resume` does. It also rolls out the edits that an undo " +
			"holds back:\n" +
			"an undo does so with the annotation " + trigger.AfterUndo + "=pause. All waiting edits are one rollout.",
		Example: "  kubectl liveconfig rollout resume deployment/web",
		RunE: func(c *cobra.Command, args []string) error {
			return o.ChangeEach(args, func(info *resource.Info, w selection.Workload) ([]string, error) {
				return resume(c.Context(), s, info, w)
			})
		},
	}
	o.AddClusterFlags(c)
	o.Output.AddFlags(c)
	return c
}

func resume(
	ctx context.Context, s *session.Session, info *resource.Info, w selection.Workload,
) (remarks []string, err error) {
	ref, _ := selection.ViewOf(info.Object)
	deployment, isDeployment := w.Object.(*appsv1.Deployment)
	wasPaused := isDeployment && deployment.Spec.Paused
	text, wasUndone := w.Meta.Annotations[trigger.UndoneAnnotation]
	if !wasPaused && !wasUndone {
		return nil, errors.New("there is nothing to resume: it is not paused, and no undo holds edits back")
	}
	if wasPaused {
		deployment.Spec.Paused = false
		remarks = append(remarks, fmt.Sprintf("%s is not paused any more: what has changed meanwhile is rolled out", ref))
	}
	if wasUndone {
		delete(w.Meta.Annotations, trigger.UndoneAnnotation)
		remarks = append(remarks, fmt.Sprintf("the undo of %s%s holds nothing back any more: %s", ref, since(text),
			next(ctx, s, info, w)))
	}
	return remarks, nil
}

// since returns when an undo was noticed, as its annotation has it.
func since(text string) string {
	var undone trigger.Undone
	if err := json.Unmarshal([]byte(text), &undone); err != nil || undone.At.IsZero() {
		return ""
	}
	return " at " + undone.At.UTC().Format(time.RFC3339)
}

// next returns what the controller does now: that depends on whether a source was edited since the
// last rollout.
func next(ctx context.Context, s *session.Session, info *resource.Info, w selection.Workload) string {
	config, err := configNow(ctx, s, info, w)
	switch {
	case err != nil:
		return "what was edited since is rolled out, and further edits are"
	case trigger.ParseMark(w.Meta.Labels[trigger.RolloutLabel]).IsFor(config):
		return "nothing was edited since, so it stays as it is, and the next edit is rolled out"
	default:
		return "what was edited since is rolled out now"
	}
}

// configNow returns what the config would be by what the sources are now.
func configNow(
	ctx context.Context, s *session.Session, info *resource.Info, w selection.Workload,
) (trigger.Config, error) {
	text, _, _ := reloader.Wanted(w.Meta.Annotations, w.Template)
	objects, err := trigger.Parse(text)
	if err != nil {
		return nil, err
	}
	client, err := s.Clientset()
	if err != nil {
		return nil, err
	}
	config := trigger.Config{}
	for _, object := range objects {
		is := observe.Get(ctx, client, object.In(info.Namespace))
		if is.Err != nil {
			return nil, is.Err
		}
		config[object] = is.CopyName // Empty if it does not exist, as the controller has it.
	}
	return config, nil
}

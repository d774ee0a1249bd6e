package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/cluster"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// rolloutPause is the command with its flags.
type rolloutPause struct{ edit.Edit }

func newRolloutPause(s *session.Session) *cobra.Command {
	o := &rolloutPause{Edit: *edit.New("paused")}
	c := &cobra.Command{
		Use:   "pause deployment/NAME",
		Short: "Hold back all changes of a Deployment, edits of its config too",
		Long: "Does what `kubectl rollout pause` does: nothing of a Deployment is rolled out, neither changes of its pod template nor\n" +
			"edits of what triggers it, until it is resumed. Then all is one rollout. Kubernetes can pause Deployments only.",
		Example: "  kubectl liveconfig rollout pause deployment/web",
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), s, args) },
	}
	o.AddClusterFlags(c)
	o.Output.AddFlags(c)
	return c
}

func (o *rolloutPause) run(ctx context.Context, s *session.Session, args []string) error {
	return o.ChangeEach(ctx, s, args, func(info *resource.Info, w selection.Workload) ([]string, error) {
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
		const follows = "neither edits of config nor other changes of %s are rolled out until kubectl liveconfig rollout resume %[1]s"
		return []string{fmt.Sprintf(follows, ref)}, nil
	})
}

// rolloutResume is the command with its flags.
type rolloutResume struct{ edit.Edit }

func newRolloutResume(s *session.Session) *cobra.Command {
	o := &rolloutResume{Edit: *edit.New("resumed")}
	c := &cobra.Command{
		Use:   "resume TYPE/NAME",
		Short: "Roll out edits again, after a pause or an undo",
		Long: "Ends the pause of a Deployment, as `kubectl rollout resume` does, and has an undo hold nothing back any more: with the\n" +
			"annotation " + trigger.AfterUndo + "=pause, edits wait for this. All edits made meanwhile are one rollout.",
		Example: "  kubectl liveconfig rollout resume deployment/web",
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), s, args) },
	}
	o.AddClusterFlags(c)
	o.Output.AddFlags(c)
	return c
}

func (o *rolloutResume) run(ctx context.Context, s *session.Session, args []string) error {
	return o.ChangeEach(ctx, s, args, func(info *resource.Info, w selection.Workload) (remarks []string, err error) {
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
			remarks = append(remarks, fmt.Sprintf("the undo of %s%s holds nothing back any more: %s", ref, since(text), o.next(ctx, s, info, w)))
		}
		return remarks, nil
	})
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
func (o *rolloutResume) next(ctx context.Context, s *session.Session, info *resource.Info, w selection.Workload) string {
	config, err := o.configNow(ctx, s, info, w)
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
func (o *rolloutResume) configNow(ctx context.Context, s *session.Session, info *resource.Info, w selection.Workload) (trigger.Config, error) {
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
		is := cluster.Get(ctx, client, object.In(info.Namespace))
		if is.Err != nil {
			return nil, is.Err
		}
		config[object] = is.CopyName // Empty if it does not exist, as the controller has it.
	}
	return config, nil
}

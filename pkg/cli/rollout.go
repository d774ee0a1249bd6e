package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	rolled "github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

func newRollout(s *session) *cobra.Command {
	c := &cobra.Command{
		Use:   "rollout",
		Short: "Look at revisions of config, go back to one, and hold edits back",
		Long: "Knows revisions as `kubectl rollout` does, and beside their templates the config that their pods have. `kubectl rollout\n" +
			"status` and `restart` need nothing of that, and have no other here.",
		Args: subcommandOnly,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newRolloutHistory(s), newRolloutUndo(s), newRolloutPause(s), newRolloutResume(s))
	return c
}

// rolloutTargets is what the commands of rollout work on: what is in the cluster.
type rolloutTargets struct {
	selection

	driver string
}

func (o *rolloutTargets) addFlags(c *cobra.Command) {
	o.addClusterFlags(c)
	addDriverFlag(c, &o.driver)
}

// each does something to each workload, and goes on after an error. Among the objects of files, others are passed over.
func (s *selection) each(in *session, args []string, do func(*resource.Info) error) error {
	infos, err := s.visit(in, args)
	if err != nil {
		return err
	}
	hasRollouts := func(info *resource.Info) bool { _, _, known := viewOf(info.Object); return known }
	passesOver := len(args) == 0 && slices.ContainsFunc(infos, hasRollouts)
	var errs []error
	for _, info := range infos {
		err := errNoRollouts
		switch {
		case hasRollouts(info):
			err = do(info)
		case passesOver:
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", subject(info), err))
		}
	}
	return errors.Join(errs...)
}

// errNoRollouts is about objects of which Kubernetes keeps no revisions.
var errNoRollouts = errors.New("it has no rollouts: name a deployment, statefulset or daemonset")

// viewOf returns the view of a workload and the labels of its pods, and false for an object that has no rollouts.
func viewOf(object runtime.Object) (rolled.Workload, *metav1.LabelSelector, bool) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return rolled.OfDeployment(o), o.Spec.Selector, true
	case *appsv1.StatefulSet:
		return rolled.OfStatefulSet(o), o.Spec.Selector, true
	case *appsv1.DaemonSet:
		return rolled.OfDaemonSet(o), o.Spec.Selector, true
	default:
		return rolled.Workload{}, nil, false
	}
}

// clientset returns a client of the API server.
func (s *session) clientset() (kubernetes.Interface, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// historyOf reads the revisions of a workload.
func historyOf(ctx context.Context, client kubernetes.Interface, object runtime.Object, driver string) (revisions.History, error) {
	w, labels, known := viewOf(object)
	if !known {
		return revisions.History{}, errNoRollouts
	}
	selector, err := metav1.LabelSelectorAsSelector(labels)
	if err != nil {
		return revisions.History{}, fmt.Errorf("read its selector: %w", err)
	}
	options := metav1.ListOptions{LabelSelector: selector.String()}
	if w.Kind == rolled.Deployment {
		list, err := client.AppsV1().ReplicaSets(w.Namespace).List(ctx, options)
		if err != nil {
			return revisions.History{}, fmt.Errorf("list its ReplicaSets: %w", err)
		}
		return revisions.OfDeployment(w, list.Items, driver), nil
	}
	list, err := client.AppsV1().ControllerRevisions(w.Namespace).List(ctx, options)
	if err != nil {
		return revisions.History{}, fmt.Errorf("list its ControllerRevisions: %w", err)
	}
	return revisions.OfOther(w, list.Items, driver), nil
}

// fullName is how kubectl prints an object, such as deployment.apps/web.
func fullName(info *resource.Info) string {
	kind := info.Mapping.GroupVersionKind
	return strings.ToLower(kind.Kind) + "." + kind.Group + "/" + info.Name
}

package selection

import (
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	rolled "github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// Each does something to each workload, and goes on after an error. Among the objects of files,
// others are passed over.
func (s *Selection) Each(in *session.Session, args []string, do func(*resource.Info) error) error {
	infos, err := s.Visit(in, args)
	if err != nil {
		return err
	}
	hasRollouts := func(info *resource.Info) bool { _, known := ViewOf(info.Object); return known }
	passesOver := len(args) == 0 && slices.ContainsFunc(infos, hasRollouts)
	var errs []error
	for _, info := range infos {
		err := ErrNoRollouts
		switch {
		case hasRollouts(info):
			err = do(info)
		case passesOver:
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Subject(info), err))
		}
	}
	return errors.Join(errs...)
}

// ErrNoRollouts is about objects of which Kubernetes stores no revisions.
var ErrNoRollouts = errors.New("it has no rollouts: name a deployment, statefulset or daemonset")

// ViewOf returns the view of a workload, and false for an object that has no rollouts.
func ViewOf(object runtime.Object) (rolled.Workload, bool) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return rolled.OfDeployment(o), true
	case *appsv1.StatefulSet:
		return rolled.OfStatefulSet(o), true
	case *appsv1.DaemonSet:
		return rolled.OfDaemonSet(o), true
	default:
		return rolled.Workload{}, false
	}
}

package roles

import (
	"cmp"
	"errors"
	"fmt"

	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// PodsOf returns what the volumes of a workload's pods hold, and how many volumes of the driver
// there are.
func PodsOf(info *resource.Info, w selection.Workload, driver string) (Pods, int, error) {
	pods := Pods{
		Namespace:      selection.NamespaceOfPods(info, w),
		ServiceAccount: cmp.Or(w.Template.Spec.ServiceAccountName, w.Template.Spec.DeprecatedServiceAccount, "default"),
	}
	var errs []error
	count := 0
	for i, v := range w.Template.Spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != driver {
			continue
		}
		count++
		spec, err := api.Parse(v.CSI.VolumeAttributes, pods.Namespace)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.volumes[%d] (%s): %w", i, v.Name, err))
			continue
		}
		pods.Refs = append(pods.Refs, spec.Refs()...)
	}
	if text, _, found := reloader.Wanted(w.Meta.Annotations, w.Template); found {
		objects, err := trigger.Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("the annotation %s %w", trigger.TriggeredBy, err))
		}
		for _, object := range objects {
			pods.Triggers = append(pods.Triggers, object.In(pods.Namespace))
		}
	}
	if config, err := trigger.ParseConfig(w.Template.Annotations[trigger.ConfigAnnotation]); err == nil {
		pods.Copies = versions.Originals(config, pods.Namespace)
	}
	return pods, count, errors.Join(errs...)
}

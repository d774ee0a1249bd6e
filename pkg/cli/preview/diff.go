package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/preview/filelist"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// compare shows what changes in the volumes of pods.
func (o *command) compare(ctx context.Context, pods []filelist.Pod) error {
	var errs []error
	differs := false
	for _, pod := range pods {
		text, err := o.difference(ctx, pod)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", pod.Object(), err))
		}
		differs = differs || text != ""
		if _, err := fmt.Fprint(o.Out, printing.Plain(text)); err != nil {
			return err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err // Whether there are such volumes is not known of all pods.
	}
	if err := o.verdict(); err != nil || !differs {
		return err
	}
	return &usage.Exit{Code: exitDiffers}
}

// difference returns what changes in the volumes of one pod. The error counts those that cannot be
// compared.
func (o *command) difference(ctx context.Context, pod filelist.Pod) (string, error) {
	live, found, err := o.live(pod)
	if err != nil {
		return "", err
	}
	var before []filelist.Volume
	if found {
		before = o.wanted(filelist.Volumes(live, o.driver, o.content(ctx)))
	} else {
		o.Remark("note: %s: namespace %s has none yet", pod.Object(), pod.Namespace)
	}
	for _, v := range before {
		if v.Err != nil {
			o.Remark("note: %s: volume %s: of what it holds now nothing is known: %v", pod.Object(), v.Name, v.Err)
		}
	}
	all := o.volumes(ctx, pod)
	isKnown := func(v filelist.Volume) bool {
		return !slices.ContainsFunc(all, func(other filelist.Volume) bool { return other.Name == v.Name && other.Err != nil })
	}
	before, after := only(before, isKnown), only(all, isKnown)
	text := filelist.Difference(pod, before, after, o.visibility())
	if unknown := len(all) - len(after); unknown > 0 {
		return text, fmt.Errorf("%d of %d volumes cannot be compared: see above", unknown, len(all))
	}
	return text, nil
}

// only returns a new list of the volumes that are wanted.
func only(volumes []filelist.Volume, isWanted func(filelist.Volume) bool) []filelist.Volume {
	var wanted []filelist.Volume
	for _, v := range volumes {
		if isWanted(v) {
			wanted = append(wanted, v)
		}
	}
	return wanted
}

package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
)

// compare shows what changes in the volumes of pods.
func (o *command) compare(ctx context.Context, pods []Pod) error {
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
func (o *command) difference(ctx context.Context, pod Pod) (string, error) {
	live, found, err := o.live(pod)
	if err != nil {
		return "", err
	}
	var before []Volume
	if found {
		before = o.wanted(Volumes(live, o.driver, o.content(ctx)))
	} else {
		o.Remark("note: %s: namespace %s has none yet", pod.Object(), pod.Namespace)
	}
	for _, v := range before {
		if v.Err != nil {
			o.Remark("note: %s: volume %s: of what it holds now nothing is known: %v", pod.Object(), v.Name, v.Err)
		}
	}
	all := o.volumes(ctx, pod)
	isKnown := func(v Volume) bool {
		return !slices.ContainsFunc(all, func(other Volume) bool { return other.Name == v.Name && other.Err != nil })
	}
	before, after := only(before, isKnown), only(all, isKnown)
	text := Difference(pod, before, after, o.visibility())
	if unknown := len(all) - len(after); unknown > 0 {
		return text, fmt.Errorf("%d of %d volumes cannot be compared: see above", unknown, len(all))
	}
	return text, nil
}

// only returns a new list of the volumes that are wanted.
func only(volumes []Volume, isWanted func(Volume) bool) []Volume {
	var wanted []Volume
	for _, v := range volumes {
		if isWanted(v) {
			wanted = append(wanted, v)
		}
	}
	return wanted
}

// podsNamed returns the pods and templates of named objects.
func (o *command) podsNamed(namespace, selector string, args []string) ([]Pod, error) {
	infos, err := resource.NewBuilder(o).Unstructured().ContinueOnError().NamespaceParam(namespace).DefaultNamespace().
		LabelSelectorParam(selector).ResourceTypeOrNameArgs(selector == "", args...).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return nil, fmt.Errorf("nothing was found in namespace %s", namespace)
	}
	var pods []Pod
	var errs []error
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: it is not an object", selection.Subject(info)))
			continue
		}
		var made Set // Of this one alone: it may be named twice.
		err := made.Add(object.Object, namespace)
		if err == nil && len(made.Pods) == 0 {
			err = errors.New("it makes no pods: name a deployment, statefulset, daemonset, job, cronjob or pod")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", selection.Subject(info), err))
		}
		pods = append(pods, made.Pods...)
	}
	return pods, errors.Join(errs...)
}

// live returns the pod as the cluster has it, and false if it does not.
func (o *command) live(pod Pod) (Pod, bool, error) {
	if pod.Name == "" {
		return Pod{}, false, errors.New("it has no name, so no object of the cluster can be compared with it")
	}
	kind := pod.Kind
	if group, version, found := strings.Cut(pod.APIVersion, "/"); found {
		kind += "." + version + "." + group
	}
	found, err := o.podsNamed(pod.Namespace, "", []string{kind + "/" + pod.Name})
	switch {
	case apierrors.IsNotFound(err):
		return Pod{}, false, nil
	case err != nil:
		return Pod{}, false, err
	}
	for _, live := range found {
		if live.IsSame(pod) {
			return live, true, nil
		}
	}
	return Pod{}, false, nil
}

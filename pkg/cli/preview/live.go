package preview

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/preview/filelist"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// podsNamed returns the pods and templates of named objects.
func (o *command) podsNamed(namespace, selector string, args []string) ([]filelist.Pod, error) {
	infos, err := resource.NewBuilder(o).Unstructured().ContinueOnError().NamespaceParam(namespace).DefaultNamespace().
		LabelSelectorParam(selector).ResourceTypeOrNameArgs(selector == "", args...).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return nil, fmt.Errorf("nothing was found in namespace %s", namespace)
	}
	var pods []filelist.Pod
	var errs []error
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: it is not an object", selection.Subject(info)))
			continue
		}
		var made filelist.Set // Of this one alone: it may be named twice.
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
func (o *command) live(pod filelist.Pod) (filelist.Pod, bool, error) {
	if pod.Name == "" {
		return filelist.Pod{}, false, errors.New("it has no name, so no object of the cluster can be compared with it")
	}
	kind := pod.Kind
	if group, version, found := strings.Cut(pod.APIVersion, "/"); found {
		kind += "." + version + "." + group
	}
	found, err := o.podsNamed(pod.Namespace, "", []string{kind + "/" + pod.Name})
	switch {
	case apierrors.IsNotFound(err):
		return filelist.Pod{}, false, nil
	case err != nil:
		return filelist.Pod{}, false, err
	}
	for _, live := range found {
		if live.IsSame(pod) {
			return live, true, nil
		}
	}
	return filelist.Pod{}, false, nil
}

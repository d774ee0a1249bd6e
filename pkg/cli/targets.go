package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// selection is what a command works on: files, or objects of the cluster by type and name, by label, or all of a type.
type selection struct {
	files    resource.FilenameOptions
	selector string
	all      bool
	local    bool
}

// addFlags adds the flags by which people select.
func (s *selection) addFlags(c *cobra.Command) {
	s.addClusterFlags(c)
	c.Flags().BoolVar(&s.local, "local", false, "work on --filename alone and ask no cluster")
}

// addClusterFlags adds the flags by which people select what is in the cluster.
func (s *selection) addClusterFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.StringSliceVarP(&s.files.Filenames, "filename", "f", nil, "file, directory or URL of manifests; - is stdin")
	flags.BoolVarP(&s.files.Recursive, "recursive", "R", false, "go into the directories of --filename")
	flags.StringVarP(&s.files.Kustomize, "kustomize", "k", "", "directory with a kustomization")
	flags.StringVarP(&s.selector, "selector", "l", "", "labels that select objects of the type, such as app=web")
	flags.BoolVar(&s.all, "all", false, "all objects of the type in the namespace")
}

// visit finds what was selected.
func (s *selection) visit(in *session, args []string) ([]*resource.Info, error) {
	if err := s.check(args); err != nil {
		return nil, err
	}
	namespace, enforce, err := in.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("find out the namespace: %w", err)
	}
	b := resource.NewBuilder(in).Unstructured().
		ContinueOnError().NamespaceParam(namespace).DefaultNamespace().
		FilenameParam(enforce, &s.files).LabelSelectorParam(s.selector).Flatten()
	if s.local {
		b = b.Local()
	} else {
		b = b.ResourceTypeOrNameArgs(s.all, args...).Latest()
	}
	infos, err := b.Do().Infos()
	switch {
	case err != nil:
		return nil, err
	case len(infos) == 0:
		return nil, s.nothing(args, namespace)
	}
	for _, info := range infos {
		info.Namespace = cmp.Or(info.Namespace, namespace) // Without a cluster nobody has done so.
	}
	return infos, typed(infos)
}

// check returns an error for a command line that does not say what to work on, or says it twice.
func (s *selection) check(args []string) error {
	isPart := func(arg string) bool { return !strings.Contains(arg, "/") }
	switch {
	case s.local && !s.fromFiles():
		return usageError("--local needs --filename or --kustomize: there is nothing else to work on")
	case len(args) == 0 && !s.fromFiles():
		return usageError("nothing to work on: name an object, such as deployment/web, or say --filename")
	case len(args) > 0 && s.fromFiles():
		return usageError("%s and --filename both say what to work on: leave one out; of what files hold, -l selects by labels", args[0])
	case len(args) == 1 && isPart(args[0]) && !s.all && s.selector == "":
		return usageError("%q is not TYPE/NAME, such as deployment/web; for several objects of a type, say -l or --all", args[0])
	}
	return nil
}

// fromFiles reports whether the objects come from files, in which others may be beside those that are meant.
func (s *selection) fromFiles() bool { return len(s.files.Filenames) > 0 || s.files.Kustomize != "" }

// nothing is the error that nothing was selected: what was looked for, and where.
func (s *selection) nothing(args []string, namespace string) error {
	wanted, types := "object", strings.Join(args, " ")
	if types != "" {
		wanted += " of type " + types
	}
	if s.selector != "" {
		wanted += " with the labels " + s.selector
	}
	if s.fromFiles() {
		names := append(slices.Clone(s.files.Filenames), s.files.Kustomize)
		names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
		if at := slices.Index(names, manifest.Stdin); at >= 0 {
			names[at] = "the standard input"
		}
		return fmt.Errorf("there is no %s in %s", wanted, strings.Join(names, ", "))
	}
	return fmt.Errorf("there is no %s in namespace %s: see `kubectl get %s -n %[2]s --show-labels`, or say -n for another namespace",
		wanted, namespace, types)
}

// typed makes objects of Kubernetes' own kinds those of Go. Others stay as they are: files hold them beside.
func typed(infos []*resource.Info) error {
	var errs []error
	for _, info := range infos {
		errs = append(errs, asTyped(info))
	}
	return errors.Join(errs...)
}

func asTyped(info *resource.Info) error {
	given, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	text, err := given.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", subject(info), err)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: it is not what the API server takes: %w", subject(info), err)
	}
	info.Object = object
	return nil
}

// namespaceOfPods returns the namespace that a workload's pods are in.
func namespaceOfPods(info *resource.Info, w workload) string {
	return cmp.Or(w.meta.Namespace, info.Namespace, corev1.NamespaceDefault)
}

// workload is an object that has a pod template, or is a pod.
type workload struct {
	object   runtime.Object
	meta     *metav1.ObjectMeta
	template *corev1.PodTemplateSpec
	pod      *corev1.Pod // Nil but for a pod, of which template has a copy.
}

// asWorkload returns the view of an object, which shares memory with it, and false for one that makes no pods.
func asWorkload(object runtime.Object) (workload, bool) {
	switch o := object.(type) {
	case *corev1.Pod:
		return workload{object: o, meta: &o.ObjectMeta, template: &corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}, pod: o}, true
	case *appsv1.Deployment:
		return workload{object: o, meta: &o.ObjectMeta, template: &o.Spec.Template}, true
	case *appsv1.StatefulSet:
		return workload{object: o, meta: &o.ObjectMeta, template: &o.Spec.Template}, true
	case *appsv1.DaemonSet:
		return workload{object: o, meta: &o.ObjectMeta, template: &o.Spec.Template}, true
	case *appsv1.ReplicaSet:
		return workload{object: o, meta: &o.ObjectMeta, template: &o.Spec.Template}, true
	case *corev1.ReplicationController:
		if o.Spec.Template == nil {
			return workload{}, false
		}
		return workload{object: o, meta: &o.ObjectMeta, template: o.Spec.Template}, true
	case *batchv1.Job:
		return workload{object: o, meta: &o.ObjectMeta, template: &o.Spec.Template}, true
	case *batchv1.CronJob:
		return workload{object: o, meta: &o.ObjectMeta, template: &o.Spec.JobTemplate.Spec.Template}, true
	default:
		return workload{}, false
	}
}

package preview

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/preview/filelist"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// liveObjects asks the cluster for objects, for each once: all volumes are made of the same.
type liveObjects struct {
	*session.Session

	client kubernetes.Interface
	read   map[api.Ref]answer
}

// answer is what the cluster says of an object.
type answer struct {
	content api.Content
	found   bool
	err     error
}

// content is a [filelist.Objects].
func (l *liveObjects) content(ctx context.Context, ref api.Ref) (api.Content, bool, error) {
	a, known := l.read[ref]
	if !known {
		a.content, a.err = l.get(ctx, ref)
		a.found = a.err == nil
		if apierrors.IsNotFound(a.err) {
			a.err = nil
		}
		if l.read == nil {
			l.read = map[api.Ref]answer{}
		}
		l.read[ref] = a
	}
	return a.content, a.found, a.err
}

func (l *liveObjects) get(ctx context.Context, ref api.Ref) (api.Content, error) {
	if l.client == nil {
		client, err := l.Clientset()
		if err != nil {
			return api.Content{}, err
		}
		l.client = client
	}
	if ref.Kind == api.Secret {
		found, err := l.client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return api.Content{}, err
		}
		return source.ContentOfSecret(found), nil
	}
	found, err := l.client.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return api.Content{}, err
	}
	return source.ContentOfConfigMap(found), nil
}

// pods returns the pods and templates of named objects.
func (l *liveObjects) pods(namespace, selector string, args []string) ([]filelist.Pod, error) {
	infos, err := resource.NewBuilder(l).Unstructured().ContinueOnError().NamespaceParam(namespace).DefaultNamespace().
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
			errs = append(errs, fmt.Errorf("%s: it is no object", selection.Subject(info)))
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

// same returns the pod as the cluster has it, and false if it does not.
func (l *liveObjects) same(pod filelist.Pod) (filelist.Pod, bool, error) {
	if pod.Name == "" {
		return filelist.Pod{}, false, errors.New("it has no name, so the cluster has nothing to compare it with")
	}
	kind := pod.Kind
	if group, version, found := strings.Cut(pod.APIVersion, "/"); found {
		kind += "." + version + "." + group
	}
	found, err := l.pods(pod.Namespace, "", []string{kind + "/" + pod.Name})
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

// sourcesOf returns which objects the copies stand for that rollouts have put into a pod template.
func (o *command) sourcesOf(pod filelist.Pod) map[api.Ref]api.Ref {
	config, err := trigger.ParseConfig(pod.Annotations[trigger.ConfigAnnotation])
	if err != nil {
		return nil // Nothing was rolled out.
	}
	sources := map[api.Ref]api.Ref{}
	for object, copied := range config.Copies() {
		at := api.Ref{Kind: object.Kind, Namespace: pod.Namespace, Name: copied}
		sources[at] = api.Ref{Kind: object.Kind, Namespace: pod.Namespace, Name: object.Name}
	}
	return sources
}

package fakenodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Source is one object as a pod has read it.
type Source struct {
	Ref api.Ref
	// UID and ResourceVersion are empty for an object that did not exist, and need not.
	UID, ResourceVersion string
	// Data is the object's text and bytes.
	Data map[string]string
}

// waitingError is why a pod is not started: a required object or key is missing. It heals when that is made.
type waitingError struct{ reason, text string }

// Error says what is missing.
func (e waitingError) Error() string { return e.text }

func asWaiting(err error) (waitingError, bool) { return errors.AsType[waitingError](err) }

// What a kubelet shows of a pod without its volumes, and without its environment.
const (
	noVolumes     = "ContainerCreating"
	noEnvironment = "CreateContainerConfigError"
)

// resolve reads each object that a pod uses once, and checks all uses of them.
func (s *Nodes) resolve(ctx context.Context, pod *corev1.Pod) ([]Source, error) {
	uses, err := usesOf(pod)
	if err != nil {
		return nil, err
	}
	read := make(map[api.Ref]Source)
	for _, u := range uses {
		source, known := read[u.ref]
		if !known {
			if source, err = s.readSource(ctx, u.ref); err != nil {
				return nil, err
			}
			read[u.ref] = source
		}
		if err := u.check(source); err != nil {
			return nil, err
		}
	}
	sources := make([]Source, 0, len(read))
	for _, source := range read {
		sources = append(sources, source)
	}
	slices.SortFunc(sources, func(a, b Source) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
	return sources, nil
}

// readSource reads an object. One that does not exist has no UID.
func (s *Nodes) readSource(ctx context.Context, ref api.Ref) (Source, error) {
	source := Source{Ref: ref, Data: make(map[string]string)}
	var meta metav1.ObjectMeta
	if ref.Kind == api.Secret {
		secret, err := s.client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return source, ignoreNotFound(err)
		}
		meta = secret.ObjectMeta
		add(source.Data, secret.Data)
	} else {
		configMap, err := s.client.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return source, ignoreNotFound(err)
		}
		meta = configMap.ObjectMeta
		add(source.Data, configMap.Data)
		add(source.Data, configMap.BinaryData)
	}
	source.UID, source.ResourceVersion = string(meta.UID), meta.ResourceVersion
	return source, nil
}

func add[T ~string | ~[]byte](to map[string]string, data map[string]T) {
	for key, value := range data {
		to[key] = string(value)
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// use is one place in a pod that names an object.
type use struct {
	ref api.Ref
	// keys are wanted; without any, the object is.
	keys     []string
	optional bool
	// without is what the pod is without while something is missing.
	without string
}

func (u use) check(source Source) error {
	if u.optional {
		return nil
	}
	if source.UID == "" {
		return waitingError{u.without, fmt.Sprintf("%s does not exist", u.ref)}
	}
	for _, key := range u.keys {
		if _, found := source.Data[key]; !found {
			return waitingError{u.without, fmt.Sprintf("%s has no key %s", u.ref, key)}
		}
	}
	return nil
}

package fakenodes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// ownAccess starts the name of the volume that the API server gives each pod, so that it can be reached. Pods do not wait for
// it here, nor does it count to what they read: tests do without the controller that keeps its ConfigMap.
const ownAccess = "kube-api-access-"

// usesOf returns where a pod names ConfigMaps and Secrets, volumes first as a kubelet does.
func usesOf(pod *corev1.Pod) ([]use, error) {
	var uses []use
	for i := range pod.Spec.Volumes {
		if strings.HasPrefix(pod.Spec.Volumes[i].Name, ownAccess) {
			continue
		}
		ofVolume, err := usesOfVolume(pod.Namespace, &pod.Spec.Volumes[i])
		if err != nil {
			return nil, err
		}
		uses = append(uses, ofVolume...)
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		uses = append(uses, usesOfContainer(pod.Namespace, &container)...)
	}
	return uses, nil
}

func usesOfVolume(namespace string, volume *corev1.Volume) ([]use, error) {
	switch {
	case volume.ConfigMap != nil:
		v := volume.ConfigMap
		return []use{mounted(api.ConfigMap, namespace, v.Name, v.Items, v.Optional)}, nil
	case volume.Secret != nil:
		v := volume.Secret
		return []use{mounted(api.Secret, namespace, v.SecretName, v.Items, v.Optional)}, nil
	case volume.Projected != nil:
		return usesOfProjection(namespace, volume.Projected.Sources), nil
	case volume.CSI != nil && volume.CSI.Driver == node.DriverName:
		return usesOfAttributes(namespace, volume.CSI.VolumeAttributes)
	default:
		return nil, nil
	}
}

func usesOfProjection(namespace string, sources []corev1.VolumeProjection) []use {
	var uses []use
	for _, source := range sources {
		if v := source.ConfigMap; v != nil {
			uses = append(uses, mounted(api.ConfigMap, namespace, v.Name, v.Items, v.Optional))
		}
		if v := source.Secret; v != nil {
			uses = append(uses, mounted(api.Secret, namespace, v.Name, v.Items, v.Optional))
		}
	}
	return uses
}

func mounted(kind api.Kind, namespace, name string, items []corev1.KeyToPath, optional *bool) use {
	u := use{ref: api.Ref{Kind: kind, Namespace: namespace, Name: name}, optional: isSet(optional), without: noVolumes}
	for _, item := range items {
		u.keys = append(u.keys, item.Key)
	}
	return u
}

// usesOfAttributes reads what liveconfig's driver would. With mistakes in the attributes the pod has no volumes.
func usesOfAttributes(namespace string, attributes map[string]string) ([]use, error) {
	spec, err := api.Parse(attributes, namespace)
	if err != nil {
		return nil, waitingError{noVolumes, err.Error()}
	}
	uses := make([]use, len(spec.Sources))
	for i, source := range spec.Sources {
		uses[i] = use{ref: source.Ref, optional: source.Optional, without: noVolumes}
		for _, item := range source.Items {
			uses[i].keys = append(uses[i].keys, item.Key)
		}
	}
	return uses, nil
}

func usesOfContainer(namespace string, container *corev1.Container) []use {
	var uses []use
	named := func(kind api.Kind, name string, optional *bool, keys ...string) {
		ref := api.Ref{Kind: kind, Namespace: namespace, Name: name}
		uses = append(uses, use{ref: ref, keys: keys, optional: isSet(optional), without: noEnvironment})
	}
	for _, from := range container.EnvFrom {
		if r := from.ConfigMapRef; r != nil {
			named(api.ConfigMap, r.Name, r.Optional)
		}
		if r := from.SecretRef; r != nil {
			named(api.Secret, r.Name, r.Optional)
		}
	}
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			continue
		}
		if r := variable.ValueFrom.ConfigMapKeyRef; r != nil {
			named(api.ConfigMap, r.Name, r.Optional, r.Key)
		}
		if r := variable.ValueFrom.SecretKeyRef; r != nil {
			named(api.Secret, r.Name, r.Optional, r.Key)
		}
	}
	return uses
}

func isSet(flag *bool) bool { return flag != nil && *flag }

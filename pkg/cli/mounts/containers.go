package mounts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// tokenPath is where the API server mounts a token into each container of a new pod, unless that is
// turned off or something is mounted there already.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // It is no credential.

// Containers returns the containers of a pod spec with their mounts, as the pod will have them.
func Containers(spec *corev1.PodSpec) []Container {
	hasToken := spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken
	var containers []Container
	for _, of := range slices.Concat(spec.InitContainers, spec.Containers) {
		c := Container{Name: of.Name}
		for _, m := range of.VolumeMounts {
			c.Mounts = append(c.Mounts,
				Mount{Volume: m.Name, Path: m.MountPath, SubPath: m.SubPath, SubPathExpr: m.SubPathExpr})
		}
		if hasToken {
			c = c.WithToken()
		}
		containers = append(containers, c)
	}
	return containers
}

// WithToken returns the container with the mount of a token that the API server adds.
func (c Container) WithToken() Container {
	if !slices.ContainsFunc(c.Mounts, func(m Mount) bool { return m.Path == tokenPath }) {
		c.Mounts = append(slices.Clone(c.Mounts), Mount{Path: tokenPath})
	}
	return c
}

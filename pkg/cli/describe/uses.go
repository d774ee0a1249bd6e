package describe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

// Mount is where a container sees a volume.
type Mount struct {
	Container string `json:"container"`
	Path      string `json:"path"`
	// SubPath is the part of the volume that is mounted; empty for all of it. With an expression it
	// is that.
	SubPath string `json:"subPath,omitempty"`
}

// Way is how a pod comes by what an object holds.
type Way string

// The ways.
const (
	// AsVolume is a volume of Kubernetes' own types. Use.Type is its type.
	AsVolume Way = "volume"
	// AsVariable is one variable, and AsVariables all keys of the object.
	AsVariable  Way = "env"
	AsVariables Way = "envFrom"
	// ToPull is a Secret that the kubelet logs in to a registry with, and ToMount one for what a
	// volume is on.
	ToPull  Way = "imagePullSecrets"
	ToMount Way = "credentials"
)

// Use is one place of a pod spec that names an object of the pod's namespace.
type Use struct {
	// Object is such as configmap/foo.
	Object   string `json:"object"`
	Optional bool   `json:"optional"`
	Way      Way    `json:"way"`
	// Field is the place, such as spec.volumes[2].projected.sources[0].configMap.name.
	Field string `json:"field"`
	// Volume is the name of the volume, and Type the field that makes it one: configMap, secret,
	// projected or another.
	Volume string  `json:"volume,omitempty"`
	Type   string  `json:"type,omitempty"`
	Mounts []Mount `json:"mounts,omitempty"`
	// Container is whose variables are meant, Variable the name of the one, and Prefix goes before
	// the names of all.
	Container string `json:"container,omitempty"`
	Variable  string `json:"variable,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
}

// volumesOf returns the volumes of liveconfig of a pod spec, in its order. Copies are those that
// volumes may name, with what they are of.
func volumesOf(spec *corev1.PodSpec, in template.Place, copies map[api.Ref]api.Ref) []Volume {
	var all []Volume
	for i, v := range spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != in.Driver {
			continue
		}
		found := Volume{Name: v.Name, Mounts: mounts(spec, v.Name), Sources: []Source{}}
		at := fmt.Sprintf("spec.volumes[%d].csi", i)
		if v.CSI.ReadOnly == nil || !*v.CSI.ReadOnly {
			found.Mistakes = append(found.Mistakes, at+".readOnly: the volume must be read-only: write readOnly: true")
		}
		parsed, err := api.Parse(v.CSI.VolumeAttributes, in.Namespace)
		found.Mistakes = append(found.Mistakes, mistakes(at+".volumeAttributes", err)...)
		if parsed.UpdatePolicy != "" { // Otherwise it could not be read.
			found.describe(parsed, copies)
			if spec.SecurityContext != nil {
				found.FSGroup = spec.SecurityContext.FSGroup
			}
		}
		all = append(all, found)
	}
	return all
}

// mistakes returns an error of the parser's mistake by mistake.
func mistakes(at string, err error) []string {
	list, ok := errors.AsType[*api.AttributesError](err)
	if !ok {
		return nil
	}
	var all []string
	for _, m := range list.Mistakes {
		all = append(all, at+"."+m.Error())
	}
	if list.More > 0 {
		all = append(all, fmt.Sprintf("%s: and %d more", at, list.More))
	}
	return all
}

// containersOf returns the containers of a pod spec, by the fields that hold them.
func containersOf(spec *corev1.PodSpec) map[string][]corev1.Container {
	all := map[string][]corev1.Container{"initContainers": spec.InitContainers, "containers": spec.Containers}
	for _, c := range spec.EphemeralContainers {
		all["ephemeralContainers"] = append(all["ephemeralContainers"], corev1.Container(c.EphemeralContainerCommon))
	}
	return all
}

func mounts(spec *corev1.PodSpec, volume string) []Mount {
	var all []Mount
	lists := containersOf(spec)
	for _, c := range slices.Concat(lists["initContainers"], lists["containers"], lists["ephemeralContainers"]) {
		for _, m := range c.VolumeMounts {
			if m.Name == volume {
				all = append(all, Mount{Container: c.Name, Path: m.MountPath, SubPath: m.SubPath + m.SubPathExpr}) // One is empty.
			}
		}
	}
	return all
}

// othersOf returns everything else that a pod spec uses, in the order of volumes, containers and
// what logs in. Ephemeral containers, which no template has, are looked at as those of another one.
func othersOf(spec *corev1.PodSpec, namespace string) []Use {
	place := template.Place{Namespace: namespace} // Of no driver, so that attributes of none are read.
	containers := containersOf(spec)
	found, _ := template.Uses(&corev1.PodTemplateSpec{Spec: *spec}, place)
	ephemeral := corev1.PodSpec{Containers: containers["ephemeralContainers"]}
	added, _ := template.Uses(&corev1.PodTemplateSpec{Spec: ephemeral}, place)
	for i := range added {
		added[i].Field = strings.Replace(added[i].Field, "spec.containers[", "spec.ephemeralContainers[", 1)
	}
	var all []Use
	for _, use := range slices.Concat(found, added) {
		u := Use{Object: use.Object.String(), Optional: use.Optional, Field: use.Field}
		at := manifest.ParsePath(use.Field) // Such as spec.volumes[0].configMap.name or spec.containers[0].env[1].valueFrom.
		list, i, what := at[1].Field, at[2].Index, at[3].Field
		switch {
		case list == "volumes":
			u.Way, u.Volume, u.Type = AsVolume, spec.Volumes[i].Name, what
			u.Mounts = mounts(spec, u.Volume)
		case what == "env":
			c := containers[list][i]
			u.Way, u.Container, u.Variable = AsVariable, c.Name, c.Env[at[4].Index].Name
		default:
			c := containers[list][i]
			u.Way, u.Container, u.Prefix = AsVariables, c.Name, c.EnvFrom[at[4].Index].Prefix
		}
		all = append(all, u)
	}
	return append(all, logins(spec)...)
}

// logins returns the Secrets that images are pulled with, and those that volumes of other kinds are
// mounted with, whatever their kinds.
func logins(spec *corev1.PodSpec) []Use {
	secret := func(name string) string { return api.Ref{Kind: api.Secret, Name: name}.String() }
	var all []Use
	for i, ref := range spec.ImagePullSecrets {
		if ref.Name != "" { // An image of a public repository is pulled without it as well.
			all = append(all, Use{
				Object: secret(ref.Name), Optional: true, Way: ToPull, Field: fmt.Sprintf("spec.imagePullSecrets[%d].name", i),
			})
		}
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		kinds, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&v.VolumeSource) // The API server encodes it, too.
		delete(kinds, "secret")
		for kind := range kinds { // There is one.
			for _, field := range []string{"secretRef.name", "nodePublishSecretRef.name", "secretName"} {
				at := kind + "." + field
				if name, _, _ := unstructured.NestedString(kinds, strings.Split(at, ".")...); name != "" {
					all = append(all, Use{
						Object: secret(name), Way: ToMount, Field: fmt.Sprintf("spec.volumes[%d].%s", i, at), Volume: v.Name, Type: kind,
						Mounts: mounts(spec, v.Name),
					})
				}
			}
		}
	}
	return all
}

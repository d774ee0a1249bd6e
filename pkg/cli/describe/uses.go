package describe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
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

type walker struct {
	spec *corev1.PodSpec
	in   template.Place
}

// volumesOf returns the volumes of liveconfig of a pod spec, in its order. Copies are those that
// volumes may name, with what they are of.
func volumesOf(spec *corev1.PodSpec, in template.Place, copies map[api.Ref]api.Ref) []Volume {
	var all []Volume
	for i, v := range spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != in.Driver {
			continue
		}
		found := Volume{Name: v.Name, Mounts: walker{spec, in}.mounts(v.Name), Sources: []Source{}}
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

// othersOf returns everything else that a pod spec uses, in the order of volumes, containers and
// what logs in.
func othersOf(spec *corev1.PodSpec, in template.Place) []Use {
	w := walker{spec, in}
	return slices.Concat(w.inTree(), w.pulls(), w.credentials())
}

// mistakes returns an error of the parser's mistake by mistake.
func mistakes(at string, err error) []string {
	var list *api.AttributesError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &list):
		return []string{at + ": " + err.Error()}
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

// containers returns those of a list of the spec by the list's name.
func (w walker) containers(list string) []corev1.Container {
	switch list {
	case "initContainers":
		return w.spec.InitContainers
	case "containers":
		return w.spec.Containers
	}
	var all []corev1.Container
	for _, c := range w.spec.EphemeralContainers {
		all = append(all, corev1.Container(c.EphemeralContainerCommon))
	}
	return all
}

// lists are the fields of a pod spec that hold containers.
func lists() []string { return []string{"initContainers", "containers", "ephemeralContainers"} }

func (w walker) mounts(volume string) []Mount {
	var all []Mount
	for _, list := range lists() {
		for _, c := range w.containers(list) {
			for _, m := range c.VolumeMounts {
				if m.Name == volume {
					all = append(all, Mount{Container: c.Name, Path: m.MountPath, SubPath: m.SubPath + m.SubPathExpr}) // One is empty.
				}
			}
		}
	}
	return all
}

// inTree returns the uses by volumes of Kubernetes' own types and by variables. Ephemeral
// containers, which no template has, are looked at as those of another one.
func (w walker) inTree() []Use {
	place := template.Place{Namespace: w.in.Namespace} // Of no driver, so that attributes of none are read.
	found, _ := template.Uses(&corev1.PodTemplateSpec{Spec: *w.spec}, place)
	ephemeral := corev1.PodSpec{Containers: w.containers("ephemeralContainers")}
	added, _ := template.Uses(&corev1.PodTemplateSpec{Spec: ephemeral}, place)
	var all []Use
	for _, use := range found {
		all = append(all, w.placed(use))
	}
	for _, use := range added {
		use.Field = strings.Replace(use.Field, "spec.containers[", "spec.ephemeralContainers[", 1)
		all = append(all, w.placed(use))
	}
	return all
}

func (w walker) placed(use template.Use) Use {
	u := Use{Object: use.Object.String(), Optional: use.Optional, Field: use.Field}
	var outer, inner int
	if n, _ := fmt.Sscanf(use.Field, "spec.volumes[%d]", &outer); n == 1 {
		u.Way, u.Volume = AsVolume, w.spec.Volumes[outer].Name
		u.Type, _, _ = strings.Cut(strings.TrimPrefix(use.Field, fmt.Sprintf("spec.volumes[%d].", outer)), ".")
		u.Mounts = w.mounts(u.Volume)
		return u
	}
	for _, list := range lists() {
		if n, _ := fmt.Sscanf(use.Field, "spec."+list+"[%d].env[%d]", &outer, &inner); n == 2 {
			c := w.containers(list)[outer]
			u.Way, u.Container, u.Variable = AsVariable, c.Name, c.Env[inner].Name
		}
		if n, _ := fmt.Sscanf(use.Field, "spec."+list+"[%d].envFrom[%d]", &outer, &inner); n == 2 {
			c := w.containers(list)[outer]
			u.Way, u.Container, u.Prefix = AsVariables, c.Name, c.EnvFrom[inner].Prefix
		}
	}
	return u
}

func (w walker) pulls() []Use {
	var all []Use
	for i, ref := range w.spec.ImagePullSecrets {
		if ref.Name != "" {
			// An image of a public repository is pulled without it as well.
			all = append(all, Use{
				Object: secret(ref.Name), Optional: true, Way: ToPull, Field: fmt.Sprintf("spec.imagePullSecrets[%d].name", i),
			})
		}
	}
	return all
}

func secret(name string) string { return trigger.Object{Kind: api.Secret, Name: name}.String() }

// credentials returns the Secrets that volumes of other kinds are mounted with.
func (w walker) credentials() []Use {
	var all []Use
	for i := range w.spec.Volumes {
		v := &w.spec.Volumes[i]
		at, name := login(&v.VolumeSource)
		if name == "" {
			continue
		}
		kind, _, _ := strings.Cut(at, ".")
		all = append(all, Use{
			Object: secret(name), Way: ToMount, Field: fmt.Sprintf("spec.volumes[%d].%s", i, at), Volume: v.Name, Type: kind, Mounts: w.mounts(v.Name),
		})
	}
	return all
}

// login returns the Secret of the pod's namespace that a volume is mounted with, and the field that
// names it.
func login(v *corev1.VolumeSource) (field, name string) {
	var ref *corev1.LocalObjectReference
	switch {
	case v.AzureFile != nil:
		return "azureFile.secretName", v.AzureFile.SecretName
	case v.CephFS != nil:
		field, ref = "cephfs.secretRef.name", v.CephFS.SecretRef
	case v.Cinder != nil:
		field, ref = "cinder.secretRef.name", v.Cinder.SecretRef
	case v.CSI != nil:
		field, ref = "csi.nodePublishSecretRef.name", v.CSI.NodePublishSecretRef
	case v.FlexVolume != nil:
		field, ref = "flexVolume.secretRef.name", v.FlexVolume.SecretRef
	case v.ISCSI != nil:
		field, ref = "iscsi.secretRef.name", v.ISCSI.SecretRef
	case v.RBD != nil:
		field, ref = "rbd.secretRef.name", v.RBD.SecretRef
	case v.ScaleIO != nil:
		field, ref = "scaleIO.secretRef.name", v.ScaleIO.SecretRef
	case v.StorageOS != nil:
		field, ref = "storageos.secretRef.name", v.StorageOS.SecretRef
	}
	if ref == nil {
		return field, ""
	}
	return field, ref.Name
}

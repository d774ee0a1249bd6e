// Package uses lists what a pod spec uses of ConfigMaps and Secrets: by volumes of liveconfig, by
// volumes of Kubernetes' own types, by variables, and to log in somewhere.
//
// It does not know the API server, workloads or what the objects hold. The meaning of attributes is
// up to [api.Parse], and where a pod names objects up to pkg/rollout/template.
package uses

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// Place is where the pods run: their namespace, and the name of liveconfig's driver there.
type Place struct{ Namespace, Driver string }

// Uses is all of a pod spec.
type Uses struct {
	// Volumes are those of liveconfig, in the spec's order.
	Volumes []Volume
	// Others are everything else, in the order of volumes, containers and what logs in.
	Others []Use
}

// Volume is a volume of liveconfig.
type Volume struct {
	Name string
	// Spec is parsed from its attributes; it has no sources if there are Mistakes.
	Spec api.Spec
	// Mistakes explains why the attributes cannot be read, each with its field.
	Mistakes []string
	Mounts   []Mount
}

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

// Of returns what a pod spec uses.
func Of(spec *corev1.PodSpec, in Place) Uses {
	w := walker{spec: spec, in: in}
	return Uses{Volumes: w.volumes(), Others: append(append(w.inTree(), w.pulls()...), w.credentials()...)}
}

// walker lists the uses of one spec.
type walker struct {
	spec *corev1.PodSpec
	in   Place
}

func (w walker) volumes() []Volume {
	var all []Volume
	for i, v := range w.spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != w.in.Driver {
			continue
		}
		found := Volume{Name: v.Name, Mounts: w.mounts(v.Name)}
		at := fmt.Sprintf("spec.volumes[%d].csi", i)
		if v.CSI.ReadOnly == nil || !*v.CSI.ReadOnly {
			found.Mistakes = append(found.Mistakes, at+".readOnly: the volume must be read-only: write readOnly: true")
		}
		spec, err := api.Parse(v.CSI.VolumeAttributes, w.in.Namespace)
		found.Spec = spec
		found.Mistakes = append(found.Mistakes, mistakes(at+".volumeAttributes", err)...)
		all = append(all, found)
	}
	return all
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

// mounts returns where containers see a volume.
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

// inTree returns the uses by volumes of Kubernetes' own types and by variables.
func (w walker) inTree() []Use {
	var all []Use
	place := template.Place{Namespace: w.in.Namespace} // Of no driver, so that attributes of none are read.
	found, _ := template.Uses(&corev1.PodTemplateSpec{Spec: *w.spec}, place)
	for _, use := range found {
		all = append(all, w.placed(use))
	}
	return append(all, w.ephemeral(place)...)
}

// ephemeral returns the uses of containers that were put into a running pod, which no template has.
func (w walker) ephemeral(place template.Place) []Use {
	alike := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: w.containers("ephemeralContainers")}}
	var all []Use
	found, _ := template.Uses(alike, place)
	for _, use := range found {
		use.Field = strings.Replace(use.Field, "spec.containers[", "spec.ephemeralContainers[", 1)
		all = append(all, w.placed(use))
	}
	return all
}

// placed returns a use with its place.
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

// Package intree makes volumes of Kubernetes' own types volumes of liveconfig, and back, where both
// mean the same.
//
// It does not know manifests or the API server, nor which mounts need what.
package intree

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/attributes"
)

// ErrOther is what a volume is that no conversion is about, such as an emptyDir.
var ErrOther = errors.New("it is not a configMap, secret or projected volume")

// Namer is how a volume is written for one driver, in pods of one namespace.
type Namer struct {
	// Driver is the name of the CSI driver.
	Driver string
	// Namespace is the pods'.
	Namespace string
}

// ToLiveconfig returns the volume of liveconfig that holds the same files. The error has all
// reasons why that is impossible, or is [ErrOther].
func (n Namer) ToLiveconfig(v corev1.VolumeSource) (*corev1.CSIVolumeSource, error) {
	all, files, err := inTree(v)
	if err != nil {
		return nil, err
	}
	if files.mode != nil {
		all[api.KeyDefaultMode] = attributes.Mode(*files.mode)
	}
	if files.user != nil {
		all[api.KeyDefaultUser] = strconv.FormatInt(*files.user, 10)
	}
	if _, err := api.Parse(all, n.Namespace); err != nil {
		return nil, err
	}
	return &corev1.CSIVolumeSource{Driver: n.Driver, ReadOnly: new(true), VolumeAttributes: all}, nil
}

// defaults are what files have for which nothing else is set; nil is unset.
type defaults struct {
	mode *int32
	user *int64
}

// inTree returns the attributes of a volume without the defaults of its files, and those.
func inTree(v corev1.VolumeSource) (all map[string]string, files defaults, err error) {
	switch {
	case v.ConfigMap != nil:
		all, err = attributes.Short(source(api.ConfigMap, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional))
		return all, defaults{v.ConfigMap.DefaultMode, v.ConfigMap.DefaultUser}, err
	case v.Secret != nil:
		all, err = attributes.Short(source(api.Secret, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional))
		return all, defaults{v.Secret.DefaultMode, v.Secret.DefaultUser}, err
	case v.Projected != nil:
		all, err = projected(v.Projected.Sources)
		return all, defaults{v.Projected.DefaultMode, v.Projected.DefaultUser}, err
	default:
		return nil, defaults{}, ErrOther
	}
}

func source(kind api.Kind, name string, items []corev1.KeyToPath, optional *bool) api.Source {
	src := api.Source{Ref: api.Ref{Kind: kind, Name: name}, Optional: optional != nil && *optional}
	for _, item := range items {
		src.Items = append(src.Items, api.Item{
			Key: item.Key, Path: item.Path, Mode: as[fs.FileMode](item.Mode), User: as[int](item.User),
		})
	}
	return src
}

// as returns a number of another type; nil if there is none.
func as[To, From int | int32 | int64 | fs.FileMode](number *From) *To {
	if number == nil {
		return nil
	}
	return new(To(*number)) // Of modes, the parser refuses other bits than those of permissions.
}

func projected(list []corev1.VolumeProjection) (map[string]string, error) {
	var sources []api.Source
	var errs []error
	for i, p := range list {
		found, err := projection(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("sources[%d] %w", i, err))
		}
		sources = append(sources, found...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return attributes.Long(sources)
}

// projection returns the source of an entry, and none for one that names nothing.
func projection(p corev1.VolumeProjection) ([]api.Source, error) {
	var sources []api.Source
	if p.ConfigMap != nil {
		sources = append(sources, source(api.ConfigMap, p.ConfigMap.Name, p.ConfigMap.Items, p.ConfigMap.Optional))
	}
	if p.Secret != nil {
		sources = append(sources, source(api.Secret, p.Secret.Name, p.Secret.Items, p.Secret.Optional))
	}
	kind := RunningOnly(p)
	switch {
	case kind != "":
		return nil, fmt.Errorf("is a %s, which liveconfig does not serve: leave it in a projected volume, and move the "+
			"others to a separate volume", kind)
	case len(sources) > 1:
		return nil, errors.New("names a ConfigMap and a Secret, which the API server refuses: make them two entries")
	default:
		return sources, nil
	}
}

// RunningOnly returns the field of an entry whose files only a running pod has, and "" for one that
// names a ConfigMap or a Secret, or nothing.
func RunningOnly(p corev1.VolumeProjection) string {
	switch {
	case p.DownwardAPI != nil:
		return "downwardAPI"
	case p.ServiceAccountToken != nil:
		return "serviceAccountToken"
	case p.ClusterTrustBundle != nil:
		return "clusterTrustBundle"
	case p.PodCertificate != nil:
		return "podCertificate"
	default:
		return ""
	}
}

// ToInTree returns the volume of Kubernetes' own types that holds the same files. The error has all
// reasons why that is impossible, or is [ErrOther] for a volume of another driver.
func (n Namer) ToInTree(v corev1.VolumeSource) (corev1.VolumeSource, error) {
	if v.CSI == nil || v.CSI.Driver != n.Driver {
		return corev1.VolumeSource{}, ErrOther
	}
	spec, err := api.Parse(maps.Clone(v.CSI.VolumeAttributes), n.Namespace)
	if err != nil {
		return corev1.VolumeSource{}, err
	}
	if err := n.fits(spec, v.CSI.VolumeAttributes); err != nil {
		return corev1.VolumeSource{}, err
	}
	var files defaults
	if _, isSet := v.CSI.VolumeAttributes[api.KeyDefaultMode]; isSet {
		files.mode = as[int32](&spec.DefaultMode)
	}
	if _, isSet := v.CSI.VolumeAttributes[api.KeyDefaultUser]; isSet {
		files.user = as[int64](spec.UID)
	}
	if _, isLong := v.CSI.VolumeAttributes[api.KeySources]; isLong {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: projections(spec.Sources), DefaultMode: files.mode, DefaultUser: files.user,
		}}, nil
	}
	return single(spec.Sources[0], files), nil
}

func (n Namer) fits(spec api.Spec, all map[string]string) error {
	var errs []error
	_, isSet := all[api.KeyUID]
	if _, isDefault := all[api.KeyDefaultUser]; isSet && !isDefault {
		errs = append(errs, errors.New("uid has no in-tree form: directories belong to root; with defaultUser instead, "+
			"which Kubernetes 1.37 has behind the feature gate AtomicWriteVolumeUserFields, files belong to the user"))
	}
	if spec.GID != nil {
		errs = append(errs, errors.New("gid has no in-tree form: the pod's fsGroup is for all its volumes"))
	}
	if spec.UpdatePolicy != api.UpdateAtomic {
		errs = append(errs, fmt.Errorf("updatePolicy %s has no in-tree form", spec.UpdatePolicy))
	}
	if spec.OnDelete != api.OnDeleteKeep {
		errs = append(errs, fmt.Errorf("onDelete %s has no in-tree form", spec.OnDelete))
	}
	if spec.HasExpand() || len(spec.Values) > 0 {
		errs = append(errs, errors.New("values in files have no in-tree form"))
	}
	for _, src := range spec.Sources {
		if src.Selection != nil {
			errs = append(errs, fmt.Errorf("labelSelector, which selects %ss with %s, has no in-tree form",
				src.Ref.Kind.Resource(), cmp.Or(src.Selection.Selector, "any labels")))
			continue
		}
		if src.Ref.Namespace != n.Namespace {
			errs = append(errs, fmt.Errorf("%s is of another namespace than the pod's (%s), which has no in-tree form", src.Ref,
				n.Namespace))
		}
		if src.As != nil {
			errs = append(errs, fmt.Errorf("as, which makes one file of %s, has no in-tree form", src.Ref))
		}
	}
	return errors.Join(errs...)
}

func projections(sources []api.Source) []corev1.VolumeProjection {
	list := make([]corev1.VolumeProjection, len(sources))
	for i, src := range sources {
		name := corev1.LocalObjectReference{Name: src.Ref.Name}
		if src.Ref.Kind == api.Secret {
			list[i].Secret = &corev1.SecretProjection{LocalObjectReference: name, Items: items(src), Optional: optional(src)}
			continue
		}
		list[i].ConfigMap = &corev1.ConfigMapProjection{
			LocalObjectReference: name, Items: items(src), Optional: optional(src),
		}
	}
	return list
}

func single(src api.Source, files defaults) corev1.VolumeSource {
	if src.Ref.Kind == api.Secret {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: src.Ref.Name, Items: items(src), Optional: optional(src), DefaultMode: files.mode,
			DefaultUser: files.user,
		}}
	}
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: src.Ref.Name}, Items: items(src), Optional: optional(src),
		DefaultMode: files.mode, DefaultUser: files.user,
	}}
}

func items(src api.Source) []corev1.KeyToPath {
	var list []corev1.KeyToPath
	for _, item := range src.Items {
		list = append(list, corev1.KeyToPath{
			Key: item.Key, Path: item.Path, Mode: as[int32](item.Mode), User: as[int64](item.User),
		})
	}
	return list
}

func optional(src api.Source) *bool {
	if src.Optional {
		return new(true)
	}
	return nil
}

package template

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// find returns the texts of a template that name objects. It shares nothing with the template that
// can be modified but the attributes, which are only read.
func find(t *corev1.PodTemplateSpec, in Place) ([]text, error) {
	f := finder{in: in}
	if err := tooLarge(t, in); err != nil {
		f.blind, f.problems = true, []error{err}
	}
	f.walk(t)
	return f.texts, f.joined()
}

// mostProblems is how many problems of a template are returned. They go into the log, as often as
// somebody edits the template.
const mostProblems = 20

// joined returns the first problems, and the number of the others.
func (f *finder) joined() error {
	more := len(f.problems) - mostProblems
	if more <= 0 {
		return errors.Join(f.problems...)
	}
	return errors.Join(append(slices.Clone(f.problems[:mostProblems]), fmt.Errorf("and %d more", more))...)
}

// finder walks a template once.
type finder struct {
	in Place
	// blind means that attributes are passed over.
	blind    bool
	texts    []text
	problems []error
}

func (f *finder) walk(t *corev1.PodTemplateSpec) {
	for i := range t.Spec.Volumes {
		f.volume(fmt.Sprintf("spec.volumes[%d]", i), &t.Spec.Volumes[i].VolumeSource)
	}
	for i := range t.Spec.InitContainers {
		f.container(fmt.Sprintf("spec.initContainers[%d]", i), &t.Spec.InitContainers[i])
	}
	for i := range t.Spec.Containers {
		f.container(fmt.Sprintf("spec.containers[%d]", i), &t.Spec.Containers[i])
	}
}

func (f *finder) volume(at string, v *corev1.VolumeSource) {
	if v.ConfigMap != nil {
		f.name(at+".configMap.name", api.ConfigMap, v.ConfigMap.Name, v.ConfigMap.Optional, itemKeys(v.ConfigMap.Items)...)
	}
	if v.Secret != nil {
		f.name(at+".secret.secretName", api.Secret, v.Secret.SecretName, v.Secret.Optional, itemKeys(v.Secret.Items)...)
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			f.projection(fmt.Sprintf("%s.projected.sources[%d]", at, i), &v.Projected.Sources[i])
		}
	}
	if v.CSI != nil && v.CSI.Driver == f.in.Driver && !f.blind {
		f.attributes(at+".csi.volumeAttributes", v.CSI.VolumeAttributes)
	}
}

func (f *finder) projection(at string, p *corev1.VolumeProjection) {
	if p.ConfigMap != nil {
		f.name(at+".configMap.name", api.ConfigMap, p.ConfigMap.Name, p.ConfigMap.Optional, itemKeys(p.ConfigMap.Items)...)
	}
	if p.Secret != nil {
		f.name(at+".secret.name", api.Secret, p.Secret.Name, p.Secret.Optional, itemKeys(p.Secret.Items)...)
	}
}

func (f *finder) container(at string, c *corev1.Container) {
	for i := range c.EnvFrom {
		from, at := &c.EnvFrom[i], fmt.Sprintf("%s.envFrom[%d]", at, i)
		if ref := from.ConfigMapRef; ref != nil {
			f.name(at+".configMapRef.name", api.ConfigMap, ref.Name, ref.Optional)
		}
		if ref := from.SecretRef; ref != nil {
			f.name(at+".secretRef.name", api.Secret, ref.Name, ref.Optional)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			f.value(fmt.Sprintf("%s.env[%d].valueFrom", at, i), from)
		}
	}
}

func (f *finder) value(at string, from *corev1.EnvVarSource) {
	if ref := from.ConfigMapKeyRef; ref != nil {
		f.name(at+".configMapKeyRef.name", api.ConfigMap, ref.Name, ref.Optional, ref.Key)
	}
	if ref := from.SecretKeyRef; ref != nil {
		f.name(at+".secretKeyRef.name", api.Secret, ref.Name, ref.Optional, ref.Key)
	}
}

// name takes down a text that is nothing but a name. The API has always let some of them be empty:
// those use nothing.
func (f *finder) name(field string, kind api.Kind, name string, optional *bool, keys ...string) {
	if name == "" {
		return
	}
	use := Use{Object: api.Ref{Kind: kind, Name: name}, Field: field, Optional: optional != nil && *optional}
	f.texts = append(f.texts, text{field: field, is: name, uses: []Use{use.needing(keys)}})
}

// attributes takes down the attribute of a volume of ours that names objects.
func (f *finder) attributes(at string, all map[string]string) {
	spec, err := api.Parse(all, f.in.Namespace)
	if err != nil {
		f.problems = append(f.problems, fmt.Errorf("read %s: %w", at, err))
		return
	}
	v := newVolume(all, f.in.Namespace, spec)
	field := fmt.Sprintf("%s[%s]", at, v.key)
	f.texts = append(f.texts, text{field: field, is: all[v.key], uses: v.uses(field), volume: v})
}

// needing returns the use with the keys that must exist there. Where the object is optional, no key
// must.
func (u Use) needing(keys []string) Use {
	if u.Optional || len(keys) == 0 {
		return u
	}
	u.Keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	return u
}

func itemKeys(items []corev1.KeyToPath) []string {
	keys := make([]string, len(items))
	for i, item := range items {
		keys[i] = item.Key
	}
	return keys
}

package template

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// maxAttributes is how many bytes the attributes of all volumes of a template may have. To read
// them takes far longer than to write them, and anybody may write them.
const maxAttributes = 128 << 10

// Size returns how many bytes of attributes have to be read to know what a template uses.
func Size(t *corev1.PodTemplateSpec, in Place) int {
	size := 0
	for i := range t.Spec.Volumes {
		for key, value := range ours(&t.Spec.Volumes[i], in) {
			size += len(key) + len(value)
		}
	}
	return size
}

// ours returns the attributes of a volume, if the driver serves it.
func ours(v *corev1.Volume, in Place) map[string]string {
	if v.CSI == nil || v.CSI.Driver != in.Driver {
		return nil
	}
	return v.CSI.VolumeAttributes
}

// Glance searches a template without reading attributes, and takes time in proportion to its size.
// It returns the uses that other fields have, and the objects that attributes may name: each word
// of them that wanted reports true for, as a ConfigMap and as a Secret.
func Glance(
	t *corev1.PodTemplateSpec, in Place, wanted func(name string) bool,
) (uses []Use, mentioned map[api.Ref]bool) {
	f := finder{in: in, blind: true}
	f.walk(t)
	for _, text := range f.texts {
		uses = append(uses, text.uses...)
	}
	mentioned = map[api.Ref]bool{}
	for i := range t.Spec.Volumes {
		for _, value := range ours(&t.Spec.Volumes[i], in) {
			for name := range words(value) {
				if wanted(name) {
					mentioned[api.Ref{Kind: api.ConfigMap, Name: name}] = true
					mentioned[api.Ref{Kind: api.Secret, Name: name}] = true
				}
			}
		}
	}
	return uses, mentioned
}

// words yields the longest pieces of a text that are made of what names are made of.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			start := strings.IndexFunc(text, isInName)
			if start < 0 {
				return
			}
			text = text[start:]
			end := strings.IndexFunc(text, func(r rune) bool { return !isInName(r) })
			if end < 0 {
				end = len(text)
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

func isInName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.'
}

// OnlyVolumes returns a copy of a template with only those volumes whose attributes are to be read.
func OnlyVolumes(t *corev1.PodTemplateSpec, in Place) *corev1.PodTemplateSpec {
	only := &corev1.PodTemplateSpec{}
	for i := range t.Spec.Volumes {
		if ours(&t.Spec.Volumes[i], in) != nil {
			only.Spec.Volumes = append(only.Spec.Volumes, *t.Spec.Volumes[i].DeepCopy())
		}
	}
	return only
}

// tooLarge returns an error if a template has more attributes than are read.
func tooLarge(t *corev1.PodTemplateSpec, in Place) error {
	if size := Size(t, in); size > maxAttributes {
		return fmt.Errorf("the attributes of its volumes have %d bytes, more than the %d that are read", size, maxAttributes)
	}
	return nil
}

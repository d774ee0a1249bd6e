package copies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// The annotations that the owner of a source writes on it: which of its labels and annotations its
// copies have too, as names with commas between them. A copy has these annotations as well, and
// there they name what it has from its source.
const (
	CopiedLabels      = api.Domain + "/copied-labels"
	CopiedAnnotations = api.Domain + "/copied-annotations"
)

// maxCarried is how many bytes a source can have its copies carry: there may be many copies, and
// controllers hold this in memory for each source.
const maxCarried = 4 << 10

// Carried are the labels and annotations that an object and its copies share.
type Carried struct {
	Labels, Annotations map[string]string
}

// IsEqual reports whether both are the same.
func (c Carried) IsEqual(other Carried) bool {
	return maps.Equal(c.Labels, other.Labels) && maps.Equal(c.Annotations, other.Annotations)
}

// CarriedBy returns what the annotations CopiedLabels and CopiedAnnotations of an object name and
// the object has. The error names the annotation to correct.
func CarriedBy(o metav1.Object) (Carried, error) {
	labels, err := named(CopiedLabels, o.GetAnnotations(), o.GetLabels())
	if err != nil {
		return Carried{}, err
	}
	annotations, err := named(CopiedAnnotations, o.GetAnnotations(), o.GetAnnotations())
	if err != nil {
		return Carried{}, err
	}
	carried := Carried{Labels: labels, Annotations: annotations}
	if size := carried.size(); size > maxCarried {
		return Carried{}, fmt.Errorf("the annotations %s and %s name %d bytes, more than the %d that copies can have",
			CopiedLabels, CopiedAnnotations, size, maxCarried)
	}
	return carried, nil
}

// named returns the values that a list names, nil if none.
func named(list string, annotations, values map[string]string) (map[string]string, error) {
	text := annotations[list]
	if len(text) > maxCarried {
		return nil, fmt.Errorf("the annotation %s has %d bytes, more than %d", list, len(text), maxCarried)
	}
	var found map[string]string
	for key := range strings.SplitSeq(text, ",") {
		key = strings.TrimSpace(key)
		if key == "" {
			continue
		}
		if err := checkCarried(key); err != nil {
			return nil, fmt.Errorf("the annotation %s: %w", list, err)
		}
		if value, exists := values[key]; exists {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = value
		}
	}
	return found, nil
}

// checkCarried refuses what copies have for themselves, and what kubectl keeps a whole manifest in.
func checkCarried(key string) error {
	domain, _, _ := strings.Cut(key, "/")
	switch {
	case len(validation.IsQualifiedName(key)) > 0:
		return fmt.Errorf("%.80q is not the name of a label or an annotation", key)
	case domain == api.Domain, key == ManagedByLabel, key == lastApplied:
		return fmt.Errorf("%s cannot be copied, take it off the list", key)
	default:
		return nil
	}
}

// lastApplied is where kubectl keeps the manifest, with all content, that was applied last.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (c Carried) size() int {
	size := 0
	for _, values := range []map[string]string{c.Labels, c.Annotations} {
		for key, value := range values {
			size += len(key) + len(value)
		}
	}
	return size
}

// PutOn gives a copy what is carried.
func (c Carried) PutOn(o *metav1.ObjectMeta) {
	for annotation, values := range map[string]map[string]string{
		CopiedLabels: c.Labels, CopiedAnnotations: c.Annotations,
	} {
		if len(values) > 0 {
			o.Annotations[annotation] = list(values)
		}
	}
	maps.Copy(o.Labels, c.Labels)
	maps.Copy(o.Annotations, c.Annotations)
}

// Patch returns the labels and annotations of a merge patch after which a copy carries this instead
// of before. A key with no value is removed.
func (c Carried) Patch(before Carried) (labels, annotations map[string]any) {
	labels, annotations = changed(before.Labels, c.Labels), changed(before.Annotations, c.Annotations)
	for annotation, values := range map[string]map[string]string{
		CopiedLabels: c.Labels, CopiedAnnotations: c.Annotations,
	} {
		annotations[annotation] = nil
		if len(values) > 0 {
			annotations[annotation] = list(values)
		}
	}
	return labels, annotations
}

func changed(before, now map[string]string) map[string]any {
	patch := map[string]any{}
	for key := range before {
		patch[key] = nil
	}
	for key, value := range now {
		patch[key] = value
	}
	return patch
}

func list(values map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(values)), ",")
}

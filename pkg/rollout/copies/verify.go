package copies

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

var (
	// ErrDeleting is wrapped when the object is a copy, but about to go. It can be made again when
	// it is gone.
	ErrDeleting = errors.New("is being deleted")
	// ErrNotThatCopy is wrapped when something else has the name of the copy. Only a person can
	// help.
	ErrNotThatCopy = errors.New("is not the copy that should have this name")
)

// Verify reports why an object cannot be used as the copy that has this digest. It takes the whole
// object as the API returns it, and believes its content rather than its annotations.
func Verify[O Object](object O, want Digest) error {
	o := inspect(object)
	subject := fmt.Sprintf("%s %s/%s", o.kind.Resource(), o.GetNamespace(), o.GetName())
	if reason := o.mismatch(want); reason != "" {
		return fmt.Errorf("%s %w, because %s: delete it, or rename it if it is yours", subject, ErrNotThatCopy, reason)
	}
	if o.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s %w; it is made again when it is gone", subject, ErrDeleting)
	}
	return nil
}

// IsMarked reports whether annotations name the source and the content of a copy.
func IsMarked(annotations map[string]string) bool {
	_, err := SourceOf(annotations)
	return err == nil && annotations[DigestAnnotation] != ""
}

// IsMarkedAs reports whether an object of this name, with these annotations, is marked as the copy
// of a source: they name the source, and the digest that the name stands for. It believes the
// annotations, and takes no content.
func IsMarkedAs(source api.Ref, name string, annotations map[string]string) bool {
	of, err := SourceOf(annotations)
	digest, isDigest := parseDigest(annotations[DigestAnnotation])
	return err == nil && isDigest && of == source && Name(source.Name, digest) == name
}

// Restore returns the labels and annotations of a merge patch after which an object is marked as
// the copy of a source again. It knows the copy by its name, which stands for the content: anybody
// may have changed the rest. The error wraps ErrNotThatCopy.
func Restore[O Object](object O, source api.Ref) (labels, annotations map[string]any, err error) {
	o := inspect(object)
	if o.immutable == nil || !*o.immutable || o.kind != source.Kind || Name(source.Name, o.digest) != o.GetName() {
		return nil, nil, fmt.Errorf("%s %s/%s %w: delete it, or rename it if it is yours", o.kind.Resource(),
			o.GetNamespace(), o.GetName(), ErrNotThatCopy)
	}
	labels = map[string]any{Label: LabelValue(source.Name), ManagedByLabel: ManagedBy}
	return labels, map[string]any{SourceAnnotation: source.String(), DigestAnnotation: o.digest.String()}, nil
}

// inspected is of an object what Verify looks at.
type inspected struct {
	metav1.Object
	kind      api.Kind
	immutable *bool
	digest    Digest
}

func inspect[O Object](object O) inspected {
	s := inspected{digest: DigestOf(object)}
	switch o := any(object).(type) {
	case *corev1.ConfigMap:
		s.Object, s.kind, s.immutable = o, api.ConfigMap, o.Immutable
	case *corev1.Secret:
		s.Object, s.kind, s.immutable = o, api.Secret, o.Immutable
	}
	return s
}

// mismatch returns what is wrong with the object. It has no digests, since those of Secrets must
// stay secret.
func (s inspected) mismatch(want Digest) string {
	source, err := SourceOf(s.GetAnnotations())
	switch {
	case !Is(s.GetLabels()):
		return "it has no label " + Label
	case err != nil:
		return err.Error()
	case source.Kind != s.kind || Name(source.Name, want) != s.GetName():
		return "it is marked as a copy of " + source.String()
	case s.immutable == nil || !*s.immutable:
		return "it is not immutable"
	case s.digest != want:
		return "it has another content"
	default:
		return ""
	}
}

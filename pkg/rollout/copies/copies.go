// Package copies makes the immutable copies of ConfigMaps and Secrets that the revisions of
// workloads use: their content, their name, and their labels and annotations.
//
// A copy carries no labels and annotations of its source but those that the source lists: see
// [CarriedBy]. A tool that follows its own objects by those would take the copy for one of them and
// delete it, and kubectl's last-applied annotation would double its size.
//
// It does not know workloads, owners, clients or when a copy is needed.
package copies

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// The labels and annotations of a copy.
const (
	// Label is on every copy, and on nothing else. Its value is the LabelValue of the source's
	// name.
	Label = api.Domain + "/copy-of"
	// ManagedByLabel names the program that owns the object, for other tools: ManagedBy.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = api.ControllerName

	// SourceAnnotation names the source, such as configmap/foo.
	SourceAnnotation = api.Domain + "/source"
	// SourceUIDAnnotation and SourceResourceVersionAnnotation name the state of the source that the
	// copy was made of.
	SourceUIDAnnotation             = api.Domain + "/source-uid"
	SourceResourceVersionAnnotation = api.Domain + "/source-resource-version"
	// DigestAnnotation is the Digest of the content.
	DigestAnnotation = api.Domain + "/digest"
	// OfAnnotation is not on copies. The owner of a Role writes it there: a list of sources, such
	// as secret/foo, with commas between them. The rules of the Role that name such a source get
	// the names of its copies.
	OfAnnotation = api.Domain + "/copies-of"
	// NoteAnnotation explains the copy to people.
	NoteAnnotation = api.Domain + "/note"
)

// ErrNotCopyable is wrapped by the errors about Secrets of types that allow no copies.
var ErrNotCopyable = errors.New("cannot be copied")

// hashDigits is how many hexadecimal digits of a hash end a name.
const hashDigits = 10

// Name returns the name of the copy that has this content: foo-0123456789 for the source foo. Of a
// source whose name is too long for that, the name is cut, and the digits stand for the whole name
// too.
func Name(source string, d Digest) string {
	if whole := source + "-" + digits(d); len(whole) <= validation.DNS1123SubdomainMaxLength {
		return whole
	}
	return cut(source, validation.DNS1123SubdomainMaxLength, sha256.Sum256([]byte(d.String()+source)))
}

// IsName reports whether copies of a source can have a name. Other objects can have such a name
// too.
func IsName(source, name string) bool {
	wanted, _, _ := SplitName(Name(source, Digest{}))
	found, _, ok := SplitName(name)
	return ok && found == wanted
}

// SplitName splits a name that a copy can have, such as foo-0123456789, into that of its source,
// which may be cut, and the digits. Other objects can have such a name too.
func SplitName(name string) (source, digits string, ok bool) {
	at := len(name) - hashDigits - 1
	if at <= 0 || name[at] != '-' || strings.Trim(name[at+1:], "0123456789abcdef") != "" {
		return "", "", false
	}
	return name[:at], name[at+1:], true
}

// LabelValue returns the value of Label on copies of a source of this name. A name that is too long
// for a label is cut, and ends in a hash of the whole.
func LabelValue(source string) string {
	if len(source) <= validation.LabelValueMaxLength {
		return source
	}
	return cut(source, validation.LabelValueMaxLength, sha256.Sum256([]byte(source)))
}

// cut returns the beginning of a name and digits of a hash, which fit into the limit.
func cut(name string, limit int, hash Digest) string {
	// No name may have a hyphen behind a dot. It has no two dots in a row either.
	return strings.TrimSuffix(name[:limit-hashDigits-1], ".") + "-" + digits(hash)
}

func digits(hash Digest) string { return hex.EncodeToString(hash[:hashDigits/2]) }

// OfConfigMap returns the copy of a ConfigMap, which shares no memory with it, or the error of
// CarriedBy. It has no owner yet.
func OfConfigMap(source *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	meta, err := meta(api.ConfigMap, source, DigestOf(source))
	if err != nil {
		return nil, err
	}
	whole := source.DeepCopy()
	return &corev1.ConfigMap{
		ObjectMeta: meta,
		Immutable:  new(true),
		Data:       whole.Data,
		BinaryData: whole.BinaryData,
	}, nil
}

// OfSecret returns the copy of a Secret, which shares no memory with it, or the error of Copyable
// or CarriedBy. It has no owner yet.
func OfSecret(source *corev1.Secret) (*corev1.Secret, error) {
	if err := Copyable(source); err != nil {
		return nil, err
	}
	meta, err := meta(api.Secret, source, DigestOf(source))
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: meta,
		Immutable:  new(true),
		Type:       typeOf(source),
		Data:       source.DeepCopy().Data,
	}, nil
}

// Copyable reports why a Secret cannot be copied, by its type alone, and what to do instead. The
// data of a source of another type are valid for the API server, and so are those of the copy. The
// error wraps ErrNotCopyable.
func Copyable(source *corev1.Secret) error {
	switch source.Type {
	case corev1.SecretTypeServiceAccountToken:
		// One that names no account is invalid, and one that does is a second token that Kubernetes
		// fills or deletes.
		return fmt.Errorf("secret/%s is of type %s and %w: it is the token of one service account, which "+
			"Kubernetes manages; take it off the list, and mount a projected serviceAccountToken instead", source.Name,
			source.Type, ErrNotCopyable)
	case corev1.SecretTypeBootstrapToken:
		// Kubernetes deletes it when it expires, even if something uses it.
		return fmt.Errorf("secret/%s is of type %s and %w: it counts under its own name only, and Kubernetes "+
			"deletes it when it expires; take it off the list", source.Name, source.Type, ErrNotCopyable)
	default:
		return nil
	}
}

// meta returns the metadata of the copy of a source.
func meta(kind api.Kind, source metav1.Object, d Digest) (metav1.ObjectMeta, error) {
	from := api.Ref{Kind: kind, Name: source.GetName()}
	carried, err := CarriedBy(source)
	if err != nil {
		return metav1.ObjectMeta{}, fmt.Errorf("%s: %w", from, err)
	}
	made := metav1.ObjectMeta{
		Namespace: source.GetNamespace(),
		Name:      Name(from.Name, d),
		Labels:    map[string]string{Label: LabelValue(from.Name), ManagedByLabel: ManagedBy},
		Annotations: map[string]string{
			SourceAnnotation:                from.String(),
			SourceUIDAnnotation:             string(source.GetUID()),
			SourceResourceVersionAnnotation: source.GetResourceVersion(),
			DigestAnnotation:                d.String(),
			NoteAnnotation: "A copy for the revisions that use it. To change the config, edit " + from.String() +
				". This object goes with the last revision that needs it.",
		},
	}
	carried.PutOn(&made)
	return made, nil
}

// Is reports whether an object with these labels is marked as a copy.
func Is(labels map[string]string) bool {
	_, found := labels[Label]
	return found
}

// SourceOf returns the source that an object with these annotations is marked as a copy of.
func SourceOf(annotations map[string]string) (api.Ref, error) {
	text, found := annotations[SourceAnnotation]
	if !found {
		return api.Ref{}, fmt.Errorf("the annotation %s is missing", SourceAnnotation)
	}
	source, err := trigger.ParseObject(text)
	if err != nil {
		return api.Ref{}, fmt.Errorf("the annotation %s: %w", SourceAnnotation, err)
	}
	return source, nil
}

// Package stable reads released objects, and writes their stable copies and what they had before.
// It does not decide what to write.
package stable

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// Object is a released object or a stable copy, at one version.
type Object struct {
	Ref     api.Ref
	UID     types.UID
	Version string
	// Digest is that of the data.
	Digest string
	// IsReleased means that it has the release annotation, whose value is Annotation. One that is
	// too long to be read is cut.
	IsReleased bool
	Annotation string
	// Label is that of a stable copy; empty for other objects.
	Label string
	// FormerOf is the label of an object that keeps former contents; empty for other objects.
	FormerOf string
	// Annotations are all of a stable copy, or of an object that keeps former contents.
	Annotations map[string]string
	// Labels are those of a released object, by which volumes may select it.
	Labels map[string]string
	// CreatedAt is when the object was created, by the API server's clock and in whole seconds.
	CreatedAt time.Time

	isImmutable bool
	secretType  corev1.SecretType
	data        map[string]string // Of a ConfigMap.
	binaryData  map[string][]byte // Of a ConfigMap, or the data of a Secret.
}

// Data returns the data as files have it.
func (o Object) Data() map[string][]byte {
	all := make(map[string][]byte, len(o.data)+len(o.binaryData))
	maps.Copy(all, o.binaryData)
	for key, value := range o.data {
		all[key] = []byte(value)
	}
	return all
}

// WithoutData returns the object without its data.
func (o Object) WithoutData() Object {
	o.data, o.binaryData = nil, nil
	return o
}

// AnnotationSize returns how many bytes the annotations of a stable copy have; zero for other
// objects.
func (o Object) AnnotationSize() int {
	size := 0
	for name, value := range o.Annotations {
		size += len(name) + len(value)
	}
	return size
}

// Exposure returns the exposure that a stable copy has. One that cannot be read differs from any
// other.
func (o Object) Exposure() release.Exposure {
	e, err := release.ParseExposure(o.Annotations[release.ExposureAnnotation])
	if err != nil {
		return release.Exposure{Digest: "?"}
	}
	return e
}

// Together returns what stands for the release of several objects by which a stable copy was
// promoted.
func (o Object) Together() string { return o.Annotations[release.TogetherAnnotation] }

// IsCopyOf reports whether the object is the stable copy of another one, by its label.
func (o Object) IsCopyOf(ref api.Ref) bool { return o.Label == release.LabelOf(ref.Name) }

// Attempt returns the check of the candidate that a stable copy has a note of; the zero Attempt for
// none.
func (o Object) Attempt() release.Attempt {
	return release.ParseAttempt(o.Annotations[release.AttemptAnnotation])
}

// CanBecome reports whether a stable copy can get the content of an object: the type of a Secret
// cannot be changed, nor can the data of a copy that somebody has made immutable.
func (o Object) CanBecome(source Object) bool {
	return o.secretType == source.secretType && !o.isImmutable
}

func ofConfigMap(m *corev1.ConfigMap) Object {
	o := Object{data: m.Data, binaryData: m.BinaryData, isImmutable: m.Immutable != nil && *m.Immutable}
	return o.with(api.ConfigMap, &m.ObjectMeta)
}

func ofSecret(s *corev1.Secret) Object {
	o := Object{binaryData: s.Data, secretType: s.Type, isImmutable: s.Immutable != nil && *s.Immutable}
	return o.with(api.Secret, &s.ObjectMeta)
}

// with returns the object with what its metadata have, and with the digest.
func (o Object) with(kind api.Kind, meta *metav1.ObjectMeta) Object {
	o.Ref = api.Ref{Kind: kind, Namespace: meta.Namespace, Name: meta.Name}
	o.UID, o.Version = meta.UID, meta.ResourceVersion
	o.Annotation, o.IsReleased = meta.Annotations[release.Annotation]
	o.Annotation = settings.Cut(o.Annotation)
	o.Digest, o.CreatedAt = release.Digest(o.Data()), meta.CreationTimestamp.Time
	o.Label, o.FormerOf = meta.Labels[release.StableLabel], meta.Labels[release.FormerLabel]
	if o.IsReleased {
		o.Labels = meta.Labels
	}
	if o.Label != "" || o.FormerOf != "" {
		o.Annotations = meta.Annotations
	}
	return o
}

// Read reads an object.
func Read(ctx context.Context, client kubernetes.Interface, ref api.Ref) (Object, error) {
	var o Object
	if ref.Kind == api.Secret {
		s, err := client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return Object{}, fmt.Errorf("read %s: %w", ref, err)
		}
		o = ofSecret(s)
	} else {
		m, err := client.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return Object{}, fmt.Errorf("read %s: %w", ref, err)
		}
		o = ofConfigMap(m)
	}
	return o, nil
}

// Writer writes stable copies.
type Writer struct {
	Client kubernetes.Interface
	// Manager is the name of who writes.
	Manager string
}

// Create creates the stable copy of an object, with its content and with annotations.
func (w Writer) Create(ctx context.Context, source Object, annotations map[string]string) (Object, error) {
	label := map[string]string{release.StableLabel: release.LabelOf(source.Ref.Name)}
	source.Ref = release.StableOf(source.Ref)
	return w.create(ctx, source, label, annotations)
}

// create creates an object with a content.
func (w Writer) create(ctx context.Context, o Object, labels, annotations map[string]string) (Object, error) {
	meta := metav1.ObjectMeta{Namespace: o.Ref.Namespace, Name: o.Ref.Name, Labels: labels, Annotations: annotations}
	options := metav1.CreateOptions{FieldManager: w.Manager}
	if o.Ref.Kind == api.Secret {
		s := &corev1.Secret{ObjectMeta: meta, Type: o.secretType, Data: o.binaryData}
		s, err := w.Client.CoreV1().Secrets(meta.Namespace).Create(ctx, s, options)
		if err != nil {
			return Object{}, fmt.Errorf("create %s: %w", o.Ref, err)
		}
		return ofSecret(s), nil
	}
	m := &corev1.ConfigMap{ObjectMeta: meta, Data: o.data, BinaryData: o.binaryData}
	m, err := w.Client.CoreV1().ConfigMaps(meta.Namespace).Create(ctx, m, options)
	if err != nil {
		return Object{}, fmt.Errorf("create %s: %w", o.Ref, err)
	}
	return ofConfigMap(m), nil
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Write writes the annotations of a stable copy and, if it is not nil, the content of its source.
// It fails with a conflict if the copy has another version by now.
func (w Writer) Write(
	ctx context.Context, stable Object, annotations map[string]string, source *Object,
) (Object, error) {
	patch := []operation{
		{Op: "add", Path: "/metadata/resourceVersion", Value: stable.Version},
		{Op: "add", Path: "/metadata/annotations", Value: annotations},
	}
	switch {
	case source == nil:
	case stable.Ref.Kind == api.Secret:
		patch = append(patch, operation{Op: "add", Path: "/data", Value: orEmpty(source.binaryData)})
	default:
		patch = append(patch, operation{Op: "add", Path: "/data", Value: orEmpty(source.data)},
			operation{Op: "add", Path: "/binaryData", Value: orEmpty(source.binaryData)})
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return Object{}, fmt.Errorf("write %s: %w", stable.Ref, err)
	}
	options := metav1.PatchOptions{FieldManager: w.Manager}
	if stable.Ref.Kind == api.Secret {
		s, err := w.Client.CoreV1().Secrets(stable.Ref.Namespace).Patch(ctx, stable.Ref.Name, types.JSONPatchType, text,
			options)
		if err != nil {
			return Object{}, fmt.Errorf("write %s: %w", stable.Ref, err)
		}
		return ofSecret(s), nil
	}
	m, err := w.Client.CoreV1().ConfigMaps(stable.Ref.Namespace).Patch(ctx, stable.Ref.Name, types.JSONPatchType, text,
		options)
	if err != nil {
		return Object{}, fmt.Errorf("write %s: %w", stable.Ref, err)
	}
	return ofConfigMap(m), nil
}

// orEmpty returns a map that JSON writes.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// Delete deletes an object if it still has the version. It succeeds if the object is gone.
func (w Writer) Delete(ctx context.Context, o Object) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.Version}}
	var err error
	if o.Ref.Kind == api.Secret {
		err = w.Client.CoreV1().Secrets(o.Ref.Namespace).Delete(ctx, o.Ref.Name, options)
	} else {
		err = w.Client.CoreV1().ConfigMaps(o.Ref.Namespace).Delete(ctx, o.Ref.Name, options)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", o.Ref, err)
	}
	return nil
}

// Annotate returns the annotations of a stable copy with an exposure, and with a line of history if
// that ends a release. The zero exposure clears the one before. No check is under way any more.
func Annotate(annotations map[string]string, e release.Exposure) map[string]string {
	annotations = WithoutAttempt(annotations)
	if e.Digest == "" {
		delete(annotations, release.ExposureAnnotation)
		return annotations
	}
	annotations[release.ExposureAnnotation] = e.String()
	if e.State.IsFinal() {
		addHistory(annotations, release.Entry{Digest: e.Digest, Outcome: string(e.State), At: e.Since, Reason: e.Reason})
	}
	return annotations
}

// AnnotatePromoted returns the annotations of a stable copy that gets the content with a digest.
func AnnotatePromoted(annotations map[string]string, digest string, at time.Time, reason string) map[string]string {
	annotations = WithoutAttempt(annotations)
	delete(annotations, release.TogetherAnnotation)
	e, err := release.ParseExposure(annotations[release.ExposureAnnotation])
	if together := e.Together(); err == nil && together != "" && e.Digest == digest {
		annotations[release.TogetherAnnotation] = together
		setPartners(annotations, release.ParsePartners(annotations[release.PartnersAnnotation]).Promoted(e))
	}
	delete(annotations, release.ExposureAnnotation)
	addHistory(annotations, release.Entry{Digest: digest, Outcome: release.Promoted, At: at, Reason: reason})
	return annotations
}

// AnnotateUndone returns the annotations of a stable copy that gets an older content. together has
// the versions of the copies of all objects that are taken back together: until all of them are
// written, they disagree, and drivers keep the files of volumes that have several of them.
func AnnotateUndone(annotations map[string]string, e release.Exposure, together map[string]string) map[string]string {
	annotations = Annotate(annotations, e)
	delete(annotations, release.TogetherAnnotation)
	if len(together) > 1 {
		partners := release.ParsePartners(annotations[release.PartnersAnnotation])
		setPartners(annotations, partners.Promoted(release.Exposure{With: together}))
	}
	return annotations
}

// AnnotateAttempt returns the annotations of a stable copy whose candidate is being checked.
func AnnotateAttempt(annotations map[string]string, a release.Attempt) map[string]string {
	annotations = clone(annotations)
	annotations[release.AttemptAnnotation] = a.String()
	return annotations
}

// WithoutAttempt returns the annotations of a stable copy whose candidate is not being checked.
func WithoutAttempt(annotations map[string]string) map[string]string {
	annotations = clone(annotations)
	delete(annotations, release.AttemptAnnotation)
	return annotations
}

// Partners returns with which other objects a stable copy was promoted.
func (o Object) Partners() release.Partners {
	return release.ParsePartners(o.Annotations[release.PartnersAnnotation])
}

func setPartners(annotations map[string]string, p release.Partners) {
	annotations[release.PartnersAnnotation] = p.String()
}

// AgreeWith returns the annotations of a stable copy that is created again, or promoted, and not
// together with the other objects: for each of them they name the release that its copy names for
// this one. So copies agree after a release of several objects that did not promote all of them,
// and after one of them was deleted.
func AgreeWith(annotations map[string]string, name string, others map[string]release.Partners) map[string]string {
	annotations = clone(annotations)
	partners := release.ParsePartners(annotations[release.PartnersAnnotation])
	for other, ofOther := range others {
		_, isKnown := partners[other]
		if id := ofOther[name]; id != "" && (isKnown || len(partners) < release.MostMembers) {
			partners = partners.With(other, id)
		}
	}
	if len(partners) > 0 {
		setPartners(annotations, partners)
	}
	return annotations
}

// AnnotatePartner returns the annotations of a stable copy that names a release for one other
// object; none if id is empty.
func AnnotatePartner(annotations map[string]string, name, id string) map[string]string {
	annotations = clone(annotations)
	partners := release.ParsePartners(annotations[release.PartnersAnnotation]).With(name, id)
	if id == "" {
		delete(partners, name)
	}
	delete(annotations, release.PartnersAnnotation)
	if len(partners) > 0 {
		setPartners(annotations, partners)
	}
	return annotations
}

// AnnotateCompleted returns the annotations of a stable copy that gets what was promoted earlier,
// whatever is released now.
func AnnotateCompleted(annotations map[string]string, digest string, at time.Time) map[string]string {
	annotations = clone(annotations)
	addHistory(annotations, release.Entry{Digest: digest, Outcome: release.Promoted, At: at})
	return annotations
}

func clone(annotations map[string]string) map[string]string {
	if annotations == nil {
		return map[string]string{}
	}
	return maps.Clone(annotations)
}

func addHistory(annotations map[string]string, e release.Entry) {
	e.At = e.At.UTC().Truncate(time.Second)
	annotations[release.HistoryAnnotation] = release.AddEntry(annotations[release.HistoryAnnotation], e)
}

package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Limits of what the annotations of a stable copy may have. A step names 1,000 pods at most, beside
// pods that had the candidate before.
const (
	// LongestAnnotation is how many bytes an annotation of a stable copy may have.
	LongestAnnotation = 64 << 10
	// MostPods is how many pods an exposure may name.
	MostPods = 1500
	// MostMembers is how many objects are released together at most, and how many partners a stable
	// copy may have.
	MostMembers = 100
)

// LimitError means that an annotation has more than it may have.
type LimitError struct {
	Annotation string
	// Has is what there is too much of, and Most the limit.
	Has  string
	Most int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("annotation %s has %s, the most is %d", e.Annotation, e.Has, e.Most)
}

// checkLimit returns a [*LimitError] if there is too much of something in an annotation.
func checkLimit(annotation string, count, most int, what string) error {
	if count > most {
		return &LimitError{Annotation: annotation, Has: fmt.Sprintf("%d %s", count, what), Most: most}
	}
	return nil
}

// Marks are what the annotations and the label of an object mean for releases. They are read once
// for each version of the object.
type Marks struct {
	// Digest is that of the object's data.
	Digest string
	// IsReleased: an edit of the object is shown to few pods first.
	IsReleased bool
	// StableOf is the label of an object that is the stable copy of another one; empty for other
	// objects, which have none of the fields below.
	StableOf string
	// Audience has the candidate.
	Audience Audience
	// Together stands for the release of several objects that was last promoted.
	Together string
	Partners Partners
	// Err is a *[LimitError] if the annotations of a stable copy cannot be used. An exposure that
	// is not written correctly shows the candidate to nobody, and is not an error.
	Err error
}

// MarksOf reads the annotations and labels of an object, and returns nil for an object that
// releases do not concern. data is the content of the object.
func MarksOf(annotations, labels map[string]string, data map[string][]byte) *Marks {
	_, isReleased := annotations[Annotation]
	stableOf := labels[StableLabel]
	if !isReleased && stableOf == "" {
		return nil
	}
	m := &Marks{Digest: Digest(data), IsReleased: isReleased, StableOf: stableOf}
	if stableOf != "" {
		m.Err = m.readCopy(annotations)
	}
	return m
}

// readCopy reads what only stable copies have.
func (m *Marks) readCopy(annotations map[string]string) error {
	e, err := ParseExposure(annotations[ExposureAnnotation])
	if limit, ok := errors.AsType[*LimitError](err); ok {
		return limit
	}
	partners, err := ReadPartners(annotations[PartnersAnnotation])
	if limit, ok := errors.AsType[*LimitError](err); ok {
		return limit
	}
	together := annotations[TogetherAnnotation]
	if err := checkLimit(TogetherAnnotation, len(together), togetherLength, "bytes"); err != nil {
		return err
	}
	m.Audience, m.Partners, m.Together = e.Audience(), partners, strings.Clone(together)
	return nil
}

// Size returns about how many bytes of memory the marks take.
func (m *Marks) Size() int {
	const perEntry = 64 // Of a map or a slice, and its strings.
	if m == nil {
		return 0
	}
	size := len(m.Digest) + len(m.StableOf) + len(m.Together) + len(m.Audience.exposure.Reason)
	for _, pod := range m.Audience.exposure.Pods {
		size += perEntry + len(pod)
	}
	for _, names := range []map[string]string{m.Audience.exposure.With, m.Partners} {
		for name, value := range names {
			size += perEntry + len(name) + len(value)
		}
	}
	return size
}

// Audience is an [Exposure] that many questions are asked about. The zero Audience has no pods.
type Audience struct {
	exposure Exposure // Its pods are sorted.
	together string
}

// Audience returns who has the candidate of an exposure.
func (e Exposure) Audience() Audience {
	e.Pods = slices.Clone(e.Pods)
	slices.Sort(e.Pods)
	return Audience{exposure: e, together: e.Together()}
}

// Digest returns the digest of the candidate.
func (a Audience) Digest() string { return a.exposure.Digest }

// State returns how far the release has come.
func (a Audience) State() State { return a.exposure.State }

// With returns the objects whose candidates are shown together: see [Exposure.With]. The caller
// must not change it.
func (a Audience) With() map[string]string { return a.exposure.With }

// Together is [Exposure.Together].
func (a Audience) Together() string { return a.together }

// Shows is [Exposure.Shows].
func (a Audience) Shows(podUID, digest string) bool {
	if digest == "" || a.exposure.Digest != digest {
		return false
	}
	_, isNamed := slices.BinarySearch(a.exposure.Pods, podUID)
	return isNamed || position(podUID, a.together, digest) < a.exposure.Threshold
}

// IsPromotedWith reports whether a copy with these partners was last promoted together with the
// named object by the release that an audience is of.
func (p Partners) IsPromotedWith(name string, a Audience) bool {
	return len(a.exposure.With) > 0 && p[name] == a.together[:releaseLength]
}

// RefOf returns the object of a namespace that [NameOf] has named; false for another text.
func RefOf(namespace, name string) (api.Ref, bool) {
	for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
		prefix := kind.Resource() + "/"
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			return api.Ref{Kind: kind, Namespace: namespace, Name: name[len(prefix):]}, true
		}
	}
	return api.Ref{}, false
}

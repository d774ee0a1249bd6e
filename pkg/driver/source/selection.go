package source

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// The most that a selection may have, and all selections of a volume together.
const (
	MaxSelected      = 1000
	MaxSelectedBytes = 16 << 20
)

// TooMuchError means that a selector matches more than a volume can have. The members are the last
// ones that were not too many.
type TooMuchError struct {
	// Objects and Bytes are what was read until it was too much. There may be more.
	Objects, Bytes int
}

func (e *TooMuchError) Error() string {
	return fmt.Sprintf("labelSelector selects too much: at least %d objects with %.1f MiB, and the most for a volume is "+
		"%d objects and %d MiB; select fewer, or use more volumes", e.Objects, float64(e.Bytes)/(1<<20), MaxSelected,
		MaxSelectedBytes>>20)
}

// Member is one object of a selection.
type Member struct {
	Content api.Content
	// Created is when the object was created, by the API server's clock and in whole seconds.
	Created time.Time
	// Annotations are those of the object, without the one in which kubectl stores what it applied.
	// Values that are too long for a path are cut.
	Annotations map[string]string
	// Release is as in a [Snapshot].
	Release *release.Marks
	// Gone is when the object was deleted; zero for one that exists. An object that is gone for
	// [AbsenceTime] is no member any more.
	Gone time.Time

	// bytes are those of the content, and cost is how much memory it takes to store the member. An
	// event of a selection needs those of all members, which may have a million keys.
	bytes int
	cost  int64
}

// The limits of the annotations of a member, and its memory.
const (
	longestAnnotation = 4<<10 + 1
	appliedByKubectl  = "kubectl.kubernetes.io/last-applied-configuration"
	bytesPerMember    = 1 << 10 // Besides its content, annotations and marks.
)

// memberFrom returns a member as an object of one of the kinds is now.
func memberFrom(o metav1.Object) Member {
	content := contentOf(o)
	m := Member{
		Content: content, Created: o.GetCreationTimestamp().Time,
		Release: release.MarksOf(o.GetAnnotations(), o.GetLabels(), content.Data),
	}
	for name, value := range o.GetAnnotations() {
		if name == appliedByKubectl {
			continue
		}
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		if len(value) > longestAnnotation {
			value = strings.Clone(value[:longestAnnotation]) // The rest of it is not stored.
		}
		m.Annotations[name] = value
	}
	m.bytes, m.cost = content.Size(), m.costNow()
	return m
}

// costNow computes the cost.
func (m Member) costNow() int64 {
	size := int64(bytesPerMember + m.Release.Size())
	for key, value := range m.Content.Data {
		size += bytesPerKey + int64(len(key)+len(value))
	}
	for name, value := range m.Annotations {
		size += bytesPerKey + int64(len(name)+len(value))
	}
	return size
}

// isSameAs reports whether both are the same version of an object.
func (m Member) isSameAs(other Member) bool {
	return m.Content.UID == other.Content.UID && m.Content.ResourceVersion == other.Content.ResourceVersion
}

// compareAge orders members: older ones first, then by namespace and name.
func compareAge(a, b Member) int {
	return api.CompareAge(a.Content.Ref, a.Created, b.Content.Ref, b.Created)
}

// contentOfAll returns what stands for all members: a version that differs if one of them does.
func contentOfAll(ref api.Ref, members []Member) api.Content {
	all := api.Content{Ref: ref}
	contents := make([]api.Content, len(members))
	for i, m := range members {
		contents[i] = m.Content
		if m.Content.ChangedAt.After(all.ChangedAt) {
			all.ChangedAt = m.Content.ChangedAt
		}
	}
	all.ResourceVersion = api.VersionOfAll(contents)
	return all
}

// selectorOf returns the selector of requests for a selection; empty for one object.
func selectorOf(key Key) string {
	if !key.IsSelection() {
		return ""
	}
	return api.RequestSelector(key.Selector)
}

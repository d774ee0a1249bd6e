// Package release has what the driver, the controller and the plugin must agree on about releases
// of live config: names, the digest of a content, which pods an exposure shows the candidate to.
//
// An object with the annotation [Annotation] is released: an edit of it is a candidate, which the
// controller shows to some pods before all get it. The other pods have the content of its stable
// copy. Package api has the words for objects; this package does not know Kubernetes clients, how a
// candidate is judged, or files.
package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Annotations and the label of releases.
const (
	// Annotation makes a ConfigMap or Secret a released one. Its value has the settings.
	Annotation = api.Domain + "/release"
	// ExposureAnnotation of the stable copy is an [Exposure].
	ExposureAnnotation = api.Domain + "/exposure"
	// HistoryAnnotation of the stable copy is a list of [Entry].
	HistoryAnnotation = api.Domain + "/release-history"
	// TogetherAnnotation of the stable copy is [Exposure.Together] of the last release of several
	// objects that was promoted.
	TogetherAnnotation = api.Domain + "/released-together"
	// StableLabel of the stable copy names the object that it is of: see [LabelOf].
	StableLabel = api.Domain + "/stable-of"
)

// Suffix ends the name of a stable copy.
const Suffix = ".stable"

// MostName is how many bytes the name of a released object may have: its copy has a longer one.
const MostName = 253 - len(Suffix)

// StableOf returns the name of an object's stable copy.
func StableOf(ref api.Ref) api.Ref {
	ref.Name += Suffix
	return ref
}

// LabelOf returns the value of [StableLabel] in the copy of an object. A label is shorter than a
// name may be: then it is the beginning of the name and a part of its digest.
func LabelOf(name string) string {
	const most, digits = 63, 10
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:most-digits-1], "-.") + "-" + hex.EncodeToString(sum[:])[:digits]
}

// NameOf returns how an object is named in [Exposure.With].
func NameOf(ref api.Ref) string { return ref.Local().String() }

// Digest returns the SHA-256 of sorted keys and bytes, in hex. Equal data of a ConfigMap has one
// digest, whether it is in data or binaryData.
func Digest(data map[string][]byte) string {
	h := sha256.New()
	part := func(b []byte) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(b))) // A hash takes everything.
		h.Write(b)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		part([]byte(key))
		part(data[key])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Undone is a key of [Exposure.With] that is no object's name. With it, an edit of several objects
// that was taken back after its promotion differs from the release that promoted it.
const Undone = "undone"

// Position returns where a pod stands, from 0 to below 1. A pod is at another place for each
// digest, so that not the same pods are first every time.
func Position(podUID, digest string) float64 {
	sum := sha256.Sum256([]byte(podUID + "\n" + digest))
	const scale = 1 << 32
	return float64(binary.BigEndian.Uint32(sum[:4])) / scale
}

// State is how far a release has come.
type State string

// The states of a release. In the last three nothing happens until a newer edit or a person ends
// them.
const (
	// Progressing: pods of one step have the candidate.
	Progressing State = "Progressing"
	// Waiting: the time of a step is over, and it is not known that the files of its pods have the
	// candidate. The next step follows when it is.
	Waiting State = "Waiting"
	// Promoting: a person has all pods get the candidates of a group. All have them already, and
	// the copies follow.
	Promoting State = "Promoting"
	// Refused: a rule of the annotation does not hold, so no pod gets the candidate.
	Refused State = "Refused"
	// Reverted: the candidate was taken back from all pods.
	Reverted State = "Reverted"
	// Frozen: the pods that have the candidate keep it, and no other pod gets it.
	Frozen State = "Frozen"
)

// IsFinal reports whether only a newer edit or a person ends the state.
func (s State) IsFinal() bool { return s == Refused || s == Reverted || s == Frozen }

// IsStep reports whether pods of one step have the candidate, and more follow by themselves.
func (s State) IsStep() bool { return s == Progressing || s == Waiting }

// Exposure names the pods that have the candidate. The zero Exposure shows it to no pod.
type Exposure struct {
	// Digest is that of the candidate. Another content of the object is shown to nobody.
	Digest string `json:"digest"`
	// With has the objects whose candidates are shown together, this one among them: their resource
	// versions by «configmap/name» or «secret/name». Empty for a release of one object. A digest
	// would let readers of ConfigMaps guess Secrets.
	With map[string]string `json:"with,omitempty"`
	// Threshold is the share of the pods that have the candidate: those at a [Position] below it.
	// With 1 all pods have it.
	Threshold float64 `json:"threshold"`
	// Pods are the UIDs of pods that have the candidate besides.
	Pods  []string `json:"pods,omitempty"`
	State State    `json:"state"`
	// Step counts from 1; 0 before the first one.
	Step int `json:"step,omitempty"`
	// Since is when the step or the final state began.
	Since time.Time `json:"since,omitzero"`
	// Reason explains the state in a sentence, if its name does not.
	Reason string `json:"reason,omitempty"`
	// Rules stands for the annotations by which the candidate was checked: by others it is checked
	// again.
	Rules string `json:"rules,omitempty"`
}

// ParseExposure reads the value of [ExposureAnnotation]. An empty text is the zero Exposure.
func ParseExposure(text string) (Exposure, error) {
	var e Exposure
	if text == "" {
		return e, nil
	}
	if err := checkLimit(ExposureAnnotation, len(text), LongestAnnotation, "bytes"); err != nil {
		return Exposure{}, err
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return Exposure{}, fmt.Errorf("annotation %s: %w", ExposureAnnotation, err)
	}
	if err := checkLimit(ExposureAnnotation, len(e.With), MostMembers, "objects"); err != nil {
		return Exposure{}, err
	}
	if err := checkLimit(ExposureAnnotation, len(e.Pods), MostPods, "pods"); err != nil {
		return Exposure{}, err
	}
	return e, nil
}

// String returns the value of [ExposureAnnotation]; empty for the zero Exposure.
func (e Exposure) String() string {
	if e.Digest == "" {
		return ""
	}
	text, err := json.Marshal(e)
	if err != nil {
		return "" // Not a number: nobody is shown the candidate.
	}
	return string(text)
}

// togetherLength is how long [Exposure.Together] is.
const togetherLength = 2 * sha256.Size

// Together returns what stands for the candidates that are shown together; empty for one object.
func (e Exposure) Together() string {
	if len(e.With) == 0 {
		return ""
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(e.With)) {
		h.Write([]byte(name + "=" + e.With[name] + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Position returns where a pod stands in this exposure. Candidates that are shown together are
// shown to the same pods.
func (e Exposure) Position(podUID string) float64 {
	return position(podUID, e.Together(), e.Digest)
}

func position(podUID, together, digest string) float64 {
	return Position(podUID, cmp.Or(together, digest))
}

// Shows reports whether a pod gets the content with that digest of the object itself, and not the
// content of the stable copy.
func (e Exposure) Shows(podUID, digest string) bool {
	return digest != "" && e.Digest == digest && (e.Position(podUID) < e.Threshold || slices.Contains(e.Pods, podUID))
}

// Entry is one finished release.
type Entry struct {
	Digest string `json:"digest"`
	// Outcome is Promoted or a final state.
	Outcome string    `json:"outcome"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

func (e Entry) isSame(other Entry) bool {
	return e.Digest == other.Digest && e.Outcome == other.Outcome && e.At.Equal(other.At) && e.Reason == other.Reason
}

// Promoted is the outcome of a release whose candidate all pods have.
const Promoted = "Promoted"

// mostEntries is how many finished releases are remembered.
const mostEntries = 10

// ParseHistory reads the value of [HistoryAnnotation], newest first.
func ParseHistory(text string) ([]Entry, error) {
	var entries []Entry
	if text == "" {
		return nil, nil
	}
	if err := checkLimit(HistoryAnnotation, len(text), LongestAnnotation, "bytes"); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", HistoryAnnotation, err)
	}
	return entries, nil
}

// AddEntry returns the value of [HistoryAnnotation] with one more entry, without the oldest ones.
// The newest entry is not added again: an exposure that has ended may be written several times. A
// value that cannot be read begins again.
func AddEntry(text string, e Entry) string {
	entries, err := ParseHistory(text)
	if err != nil {
		entries = nil
	}
	if len(entries) > 0 && entries[0].isSame(e) {
		return text
	}
	entries = append([]Entry{e}, entries...)
	written, err := json.Marshal(entries[:min(len(entries), mostEntries)])
	if err != nil {
		return text
	}
	return string(written)
}

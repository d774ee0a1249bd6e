package release

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// FormerSuffix ends the name of the object that keeps what an object had before. It is as long as
// [Suffix].
const FormerSuffix = ".former"

const (
	// FormerLabel of that object names the released object, as [StableLabel] does.
	FormerLabel = api.Domain + "/former-of"
	// FormerAnnotation of that object is a [Former].
	FormerAnnotation = api.Domain + "/former"
)

// MostFormer is how many stable contents are kept, with the one that pods have now.
const MostFormer = 3

// FormerOf returns the name of the object that keeps what an object had before.
func FormerOf(ref api.Ref) api.Ref {
	ref.Name += FormerSuffix
	return ref
}

// Former is what is known of the stable contents that an object had, and of edits that were
// refused or taken back. It survives the stable copy.
type Former struct {
	// Contents are the stable ones, newest first.
	Contents []Stored `json:"contents"`
	// Ended are edits that were refused or taken back, newest first.
	Ended []Entry `json:"ended,omitempty"`
}

// Stored is a stable content.
type Stored struct {
	Digest string `json:"digest"`
	// At is when it became stable, as far as it is known.
	At time.Time `json:"at"`
	// Key has the content in the object; empty for one that is too large to be kept.
	Key string `json:"key,omitempty"`
	// Release stands for the release of several objects that promoted it, as among [Partners];
	// empty for a release of one object.
	Release string `json:"release,omitempty"`
	// IsAhead: it is kept before the stable copies get it, and is not known to be in this one.
	IsAhead bool `json:"ahead,omitempty"`
}

// ParseFormer reads the value of [FormerAnnotation]. An empty text is the zero Former.
func ParseFormer(text string) (Former, error) {
	var f Former
	if text == "" {
		return f, nil
	}
	if err := checkLimit(FormerAnnotation, len(text), LongestAnnotation, "bytes"); err != nil {
		return Former{}, err
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return Former{}, fmt.Errorf("annotation %s: %w", FormerAnnotation, err)
	}
	if err := checkLimit(FormerAnnotation, len(f.Contents), MostFormer, "contents"); err != nil {
		return Former{}, err
	}
	return f, nil
}

// String returns the value of [FormerAnnotation].
func (f Former) String() string {
	text, err := json.Marshal(f)
	if err != nil {
		return "" // Texts and times can be written.
	}
	return string(text)
}

// Newest returns the stable content that pods had last; false for none.
func (f Former) Newest() (Stored, bool) {
	return f.first(func(s Stored) bool { return !s.IsAhead })
}

// Of returns the content of a release of several objects, whether it is known to be stable or not;
// false for none.
func (f Former) Of(id string) (Stored, bool) {
	return f.first(func(s Stored) bool { return id != "" && s.Release == id })
}

func (f Former) first(is func(Stored) bool) (Stored, bool) {
	i := slices.IndexFunc(f.Contents, is)
	if i < 0 {
		return Stored{}, false
	}
	return f.Contents[i], true
}

// Before returns the content that was stable before another one, and was not taken back; false for
// none that is kept.
func (f Former) Before(digest string) (Stored, bool) {
	return f.first(func(s Stored) bool {
		_, isEnded := f.EndOf(s.Digest)
		return s.Digest != digest && s.Key != "" && !isEnded && !s.IsAhead
	})
}

// EndOf returns how the last edit with that content ended; false if it was neither refused nor
// taken back.
func (f Former) EndOf(digest string) (Entry, bool) {
	i := slices.IndexFunc(f.Ended, func(e Entry) bool { return e.Digest == digest })
	if i < 0 {
		return Entry{}, false
	}
	return f.Ended[i], true
}

// With returns what is known when a content has become stable, or is about to. It is the newest
// one, whatever it was before. One that was ahead and did not become stable is forgotten.
func (f Former) With(s Stored) Former {
	if before, _ := f.first(func(other Stored) bool { return other.Digest == s.Digest }); s.Release == "" {
		s.Release = before.Release
	}
	contents := append([]Stored{s}, slices.DeleteFunc(slices.Clone(f.Contents), func(other Stored) bool {
		return other.Digest == s.Digest || other.IsAhead
	})...)
	ended := f.Ended
	if !s.IsAhead {
		ended = slices.DeleteFunc(slices.Clone(f.Ended), func(e Entry) bool { return e.Digest == s.Digest })
	}
	return Former{Contents: contents[:min(len(contents), MostFormer)], Ended: ended}
}

// WithEnd returns what is known when an edit was refused or taken back.
func (f Former) WithEnd(e Entry) Former {
	e.At = e.At.UTC().Truncate(time.Second)
	isSame := func(other Entry) bool { return other.Digest == e.Digest }
	ended := append([]Entry{e}, slices.DeleteFunc(slices.Clone(f.Ended), isSame)...)
	return Former{Contents: f.Contents, Ended: ended[:min(len(ended), mostEntries)]}
}

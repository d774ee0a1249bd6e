package release

import (
	"encoding/json"
	"fmt"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// PartnersAnnotation of the stable copy is [Partners].
const PartnersAnnotation = api.Domain + "/released-with"

// Partners maps the [NameOf] of each other object to the release that last promoted it together
// with the object of a stable copy. A release of one object alone leaves it as it is. Two copies
// agree if each names the same release for the other one. Else one of them is older, or the
// promotion of both is not finished.
type Partners map[string]string

// ReadPartners reads the value of [PartnersAnnotation]; an empty text names no partner.
func ReadPartners(text string) (Partners, error) {
	if text == "" {
		return nil, nil
	}
	if err := checkLimit(PartnersAnnotation, len(text), LongestAnnotation, "bytes"); err != nil {
		return nil, err
	}
	var p Partners
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", PartnersAnnotation, err)
	}
	if err := checkLimit(PartnersAnnotation, len(p), MostMembers, "objects"); err != nil {
		return nil, err
	}
	return p, nil
}

// ParsePartners is [ReadPartners] for a reader to whom a text that cannot be read names no partner.
func ParsePartners(text string) Partners {
	p, err := ReadPartners(text)
	if err != nil {
		return nil
	}
	return p
}

// String returns the value of [PartnersAnnotation]; empty for no partner.
func (p Partners) String() string {
	if len(p) == 0 {
		return ""
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "" // Strings can be written.
	}
	return string(text)
}

// Promoted returns the partners of a copy that is promoted by the release that an exposure is of.
// If there were too many, those of other releases are forgotten.
func (p Partners) Promoted(e Exposure) Partners {
	if len(p)+len(e.With) > MostMembers {
		p = nil
	}
	for name := range e.With {
		p = p.With(name, e.Release())
	}
	return p
}

// IsOf reports whether a copy with these partners was last promoted together with the named object
// by the release that an exposure is of.
func (p Partners) IsOf(name string, e Exposure) bool {
	return len(e.With) > 0 && p[name] == e.Release()
}

// With returns the partners with a release together with one more object.
func (p Partners) With(name, id string) Partners {
	all := Partners{name: id}
	for other, before := range p {
		if other != name {
			all[other] = before
		}
	}
	return all
}

// releaseLength is how much of [Exposure.Together] stands for a release among partners: a copy has
// one for each of them.
const releaseLength = 16

// Release returns what stands for a release of several objects among partners; empty for one
// object.
func (e Exposure) Release() string {
	together := e.Together()
	return together[:min(len(together), releaseLength)]
}

package release

import (
	"encoding/json"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// PartnersAnnotation of the stable copy is [Partners].
const PartnersAnnotation = api.Domain + "/released-with"

// Partners maps the [NameOf] of each other object to the release that last promoted it together
// with the object of a stable copy. A release of one object alone leaves it as it is. Two copies
// agree if each names the same release for the other one. Else one of them is older, or the
// promotion of both is not finished.
type Partners map[string]string

// ParsePartners reads the value of [PartnersAnnotation]. A text that cannot be read names no
// partner.
func ParsePartners(text string) Partners {
	var p Partners
	if text == "" || json.Unmarshal([]byte(text), &p) != nil {
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
func (p Partners) Promoted(e Exposure) Partners {
	for name := range e.With {
		p = p.With(name, e.release())
	}
	return p
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

// IsPromotedWith reports whether a copy was last promoted together with the named object by the
// release that an exposure is of.
func (p Partners) IsPromotedWith(name string, e Exposure) bool {
	return len(e.With) > 0 && p[name] == e.release()
}

// release returns what stands for a release of several objects. It is shorter than
// [Exposure.Together], because a copy has one for each partner.
func (e Exposure) release() string {
	const enough = 16
	return e.Together()[:enough]
}

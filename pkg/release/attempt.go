package release

import (
	"encoding/json"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// AttemptAnnotation of the stable copy is an [Attempt]. Only controllers read it.
const AttemptAnnotation = api.Domain + "/release-check"

// Attempt is a check of a candidate that is under way. It outlives a controller that the check
// ends: the next one would check the same content, and end as well.
type Attempt struct {
	// Digest is that of the candidate.
	Digest string `json:"digest"`
	// Rules stands for the annotations by which it is checked.
	Rules string `json:"rules"`
	// By is the run of a controller that checks.
	By    string    `json:"by"`
	Since time.Time `json:"since,omitzero"`
}

// longestAttempt is how many bytes the annotation may have: its fields take a tenth of that.
const longestAttempt = 4 << 10

// ParseAttempt reads the value of [AttemptAnnotation]. An empty text is the zero Attempt, and so is
// one that cannot be read, or is too long.
func ParseAttempt(text string) Attempt {
	var a Attempt
	if len(text) > longestAttempt {
		return a
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return Attempt{}
	}
	return a
}

// String returns the value of [AttemptAnnotation].
func (a Attempt) String() string {
	text, err := json.Marshal(a)
	if err != nil {
		return "" // Texts and a time can be written.
	}
	return string(text)
}

// IsOf reports whether a candidate was checked by those rules.
func (a Attempt) IsOf(digest, rules string) bool {
	return a.Digest != "" && a.Digest == digest && a.Rules == rules
}

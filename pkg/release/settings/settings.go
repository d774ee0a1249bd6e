// Package settings reads the annotation that makes a ConfigMap or Secret a released one: how an
// edit is checked, and to how many pods it is shown at a time. It names every mistake. It does not
// know objects, pods, or how a rule is checked.
package settings

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// Settings are the value of the annotation, with defaults.
type Settings struct {
	// Steps are shown one after the other; then all pods get the edit. The default is
	// [DefaultSteps].
	Steps []Step
	// Pause is how long each step lasts.
	Pause time.Duration
	// Watch is for how long all pods have the edit before it becomes stable, beside the steps.
	Watch time.Duration
	// Check is what ends a release.
	Check Check
	// OnFailure is what follows if the check fails.
	OnFailure OnFailure
	// Evidence is what must be known before a step ends.
	Evidence Evidence
	// Rules must hold before the first step.
	Rules []Rule
	// Group is shared by objects of a namespace that are released together; empty for none.
	Group string
}

// DefaultPause is how long a step lasts if the annotation does not have it.
const DefaultPause = 30 * time.Second

// DefaultSteps are the steps if the annotation has none: one pod, a twentieth, a quarter.
func DefaultSteps() []Step { return []Step{{Pods: 1}, {Share: 0.05}, {Share: 0.25}} }

// Default returns the settings of an empty annotation.
func Default() Settings {
	return Settings{
		Steps: DefaultSteps(), Pause: DefaultPause, Check: CheckReady, OnFailure: Revert, Evidence: EvidenceFiles,
	}
}

// Step is a number of pods or, if that is zero, a share of the pods, above 0 and at most 1.
type Step struct {
	Pods  int
	Share float64
}

// Check is what ends a release.
type Check string

// The checks.
const (
	// CheckReady: a pod that has the edit is no longer Ready, or restarts.
	CheckReady Check = "ready"
	// CheckNone: nothing does.
	CheckNone Check = "none"
)

// Evidence is what must be known before a step ends.
type Evidence string

// The kinds of evidence.
const (
	// EvidenceFiles: the drivers report that the files of pods have the edit.
	EvidenceFiles Evidence = "files"
	// EvidenceNone: only the time counts.
	EvidenceNone Evidence = "none"
)

// OnFailure is what follows when the check fails.
type OnFailure string

// The consequences of a failed check.
const (
	// Revert: no pod has the edit any more.
	Revert OnFailure = "revert"
	// Freeze: the pods that have the edit keep it, and no other pod gets it.
	Freeze OnFailure = "freeze"
)

// Rule is one thing that must be true of an edit. Either Key or Pair is set.
type Rule struct {
	// Key names the value that the rule is about.
	Key    string
	Format Format
	// SchemaKey names the value that is the JSON Schema of this one; empty for none.
	SchemaKey string
	// CEL is an expression that must be true of «self»; empty for none. Message explains what is
	// wrong if it is not.
	CEL, Message string
	// Pair is a certificate with its key.
	Pair *Pair
	// NotExpiredFor is for how long the certificate must still be valid.
	NotExpiredFor time.Duration
}

// Pair names the values of a certificate and of its key, in PEM.
type Pair struct{ Cert, Key string }

// Format is that of a value.
type Format string

// The formats.
const (
	YAML       Format = "yaml"
	JSON       Format = "json"
	TOML       Format = "toml"
	Properties Format = "properties"
	INI        Format = "ini"
)

// Formats returns every format.
func Formats() []Format { return []Format{YAML, JSON, TOML, Properties, INI} }

// Mistake is one thing that is wrong with the annotation.
type Mistake struct {
	// Line counts from one, in the annotation.
	Line int
	// Field is the path of the field, such as «validate[0].cel»; empty for the whole.
	Field string
	Text  string
}

func (m Mistake) String() string {
	if m.Field == "" {
		return release.Annotation + ": " + m.Text
	}
	return release.Annotation + ": " + m.Field + ": " + m.Text
}

// SameSteps reports whether objects with these settings can be released together.
func (s Settings) SameSteps(other Settings) bool {
	return slices.Equal(s.Steps, other.Steps) && s.Pause == other.Pause && s.Watch == other.Watch &&
		s.Check == other.Check && s.OnFailure == other.OnFailure && s.Evidence == other.Evidence
}

// Disagreement returns what is wrong with an object whose settings are not those of the object that
// decides about its group.
func (s Settings) Disagreement(decides string) string {
	return fmt.Sprintf("steps, pause, watch, check, onFailure and evidence must be those of %s, which is in the group "+
		"%s too", decides, s.Group)
}

// String returns the step as a person reads it: «1 pod», «5 pods», «25% of the pods».
func (s Step) String() string {
	switch {
	case s.Pods == 1:
		return "1 pod"
	case s.Pods > 1:
		return fmt.Sprintf("%d pods", s.Pods)
	}
	const whole = 100
	return strconv.FormatFloat(s.Share*whole, 'g', 6, 64) + "% of the pods"
}

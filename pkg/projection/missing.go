package projection

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

const (
	// maxProblems is how many problems a [MissingError] spells out. It ends up in an Event, which people read whole.
	maxProblems = 20
	// longestKey is how many bytes a key of an object may have.
	longestKey = 253
	// maxShown is how many bytes a message repeats of a key that no object can hold.
	maxShown = 60
)

// MissingError is returned by [Build] when required objects or keys do not exist. Its text is the kubelet's.
type MissingError struct {
	problems []string        // The first of them.
	seen     map[string]bool // All of them.
}

// Error returns one problem as it is, and several as «[a, b]» with equal texts once.
func (e *MissingError) Error() string {
	problems := e.Problems()
	if len(problems) == 1 {
		return problems[0]
	}
	return "[" + strings.Join(problems, ", ") + "]"
}

// Problems returns what is missing, one text for each thing, each once. After 20 of them a last text counts the rest.
// The list is the caller's.
func (e *MissingError) Problems() []string {
	problems := append(make([]string, 0, len(e.problems)+1), e.problems...)
	if more := len(e.seen) - len(e.problems); more > 0 {
		problems = append(problems, fmt.Sprintf("and %d more", more))
	}
	return problems
}

func (e *MissingError) any() bool { return len(e.problems) > 0 }

func (e *MissingError) add(problem string) {
	if e.seen[problem] {
		return
	}
	if e.seen == nil {
		e.seen = map[string]bool{}
	}
	e.seen[problem] = true
	if len(e.problems) < maxProblems {
		e.problems = append(e.problems, problem)
	}
}

// missingKey speaks as the kubelet does, which names the kind for ConfigMaps only.
func missingKey(kind api.Kind, key string) string {
	if kind == api.ConfigMap {
		return "configmap references non-existent config key: " + shown(key)
	}
	return "references non-existent secret key: " + shown(key)
}

// shown is a key as a message repeats it. An item may name anything: what could be taken for a part of the message, or
// would fill it, is quoted and cut.
func shown(key string) string {
	readable := len(strconv.Quote(key)) == len(key)+len(`""`) && !strings.ContainsAny(key, " []:;,")
	if readable && len(key) <= longestKey {
		return key
	}
	return strconv.Quote(shorten(key))
}

// shorten cuts a text to at most maxShown bytes, between two characters.
func shorten(text string) string {
	const ellipsis = "…"
	if len(text) <= maxShown {
		return text
	}
	end := maxShown - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

package api

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxMistakes is how many mistakes an [AttributesError] spells out. It ends up in an Event,
	// which people read whole.
	maxMistakes = 20
	// maxShown is how many bytes of a user's value or field name a message repeats.
	maxShown = 60
)

// AttributesError lists all mistakes in a volume's attributes at once. Its message is one line.
type AttributesError struct {
	// Mistakes come in the order a reader meets them: unknown attributes, then the known ones in
	// the order of the Key constants, each text from its beginning to its end. Every mistake has a
	// field path such as sources[1].secret.items[0].path. There are at most 20.
	Mistakes field.ErrorList
	// More counts the mistakes beyond those.
	More int
}

// Error lists the mistakes, each with its field path, the value seen and what would be accepted.
func (e *AttributesError) Error() string {
	texts := make([]string, 0, len(e.Mistakes)+1)
	for _, mistake := range e.Mistakes {
		texts = append(texts, mistake.Error())
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return e.heading() + strings.Join(texts, "; ")
}

func (e *AttributesError) heading() string {
	if n := len(e.Mistakes) + e.More; n != 1 {
		return strconv.Itoa(n) + " mistakes in volumeAttributes: "
	}
	return "mistake in volumeAttributes: "
}

// mistakes collects what is wrong. It keeps no more than a message shows, so that no input can make
// it grow.
type mistakes struct {
	found field.ErrorList
	more  int
}

// err returns nil or an *[AttributesError].
func (m *mistakes) err() error {
	if len(m.found) == 0 {
		return nil
	}
	return &AttributesError{Mistakes: m.found, More: m.more}
}

func (m *mistakes) add(mistake *field.Error) {
	if len(m.found) == maxMistakes {
		m.more++
		return
	}
	m.found = append(m.found, mistake)
}

func (m *mistakes) invalid(at *field.Path, value any, detail string) {
	m.add(field.Invalid(at, shown(value), detail))
}

func (m *mistakes) required(at *field.Path, detail string) {
	m.add(field.Required(at, detail))
}

func (m *mistakes) forbidden(at *field.Path, detail string) {
	m.add(field.Forbidden(at, detail))
}

func (m *mistakes) duplicate(at *field.Path, value, detail string) {
	mistake := field.Duplicate(at, Shorten(value))
	mistake.Detail = detail
	m.add(mistake)
}

// wrongType returns what a value should have been and, by the hint, what to do about it. A long
// list of the wrong thing makes many of these, so those that nobody will see are only counted.
func (m *mistakes) wrongType(at *field.Path, value any, want, hint string) {
	if len(m.found) == maxMistakes {
		m.more++
		return
	}
	m.add(field.TypeInvalid(at, shown(value), fmt.Sprintf("must be %s, not %s: %s", want, typeName(value), hint)))
}

// unknown reports a name that nothing reads and returns the known name it was probably meant to be,
// or "".
func (m *mistakes) unknown(at *field.Path, what, name string, known []string) string {
	if len(m.found) == maxMistakes { // The message would not show the suggestion, and there may be many to compare.
		m.more++
		return ""
	}
	meant := closest(name, known)
	if meant != "" {
		m.forbidden(at, fmt.Sprintf("unknown %s, did you mean %q?", what, meant))
		return meant
	}
	m.forbidden(at, fmt.Sprintf("unknown %s, known are %s", what, strings.Join(known, ", ")))
	return ""
}

// typeName names the type of a decoded value in the words of YAML.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case yaml.MapSlice:
		return "an object"
	default:
		return "a number"
	}
}

// shown is a value as a mistake repeats it: scalars short, lists and objects not at all.
func shown(value any) any {
	switch v := value.(type) {
	case string:
		return Shorten(v)
	case nil, []any, yaml.MapSlice:
		return field.OmitValueType{}
	default:
		return v
	}
}

// Shorten cuts a text to at most maxShown bytes, between two characters.
func Shorten(text string) string {
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

// label is a user's name as a field path shows it: as it is where that is readable, else quoted.
func label(name string) string {
	name = Shorten(name)
	if name == "" || strings.ContainsFunc(name, misleading) {
		return strconv.Quote(name)
	}
	return name
}

// misleading reports whether a character of a name could be taken for something else than a part of
// it.
func misleading(r rune) bool {
	return !strconv.IsPrint(r) || r == utf8.RuneError || strings.ContainsRune(` []:;,"\`, r)
}

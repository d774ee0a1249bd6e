package api

import (
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// schema is what an object in items or sources may hold.
type schema struct {
	// example is an object as it should be.
	example string
	fields  []property
	// elsewhere is why a field that means something in another place cannot be used here, or "" for
	// any other name.
	elsewhere func(name string) string
}

// property is one field of a schema.
type property struct {
	name string
	// required is what to write when the field is missing; empty means that it may be missing.
	required string
	// read takes a value that is not null.
	read func(at *field.Path, value any)
}

// object reads the fields of an object in the order they are written and reports those that are
// unknown, misplaced, repeated or missing. Null is a field that is not set, and an object without
// fields.
func (p *parser) object(at *field.Path, value any, s schema) {
	members, ok := value.(yaml.MapSlice)
	if !ok && value != nil {
		p.wrongType(at, value, "an object", "write "+s.example)
		return
	}
	seen := map[string]bool{}
	given := map[string]bool{}
	for _, member := range members {
		name, ok := member.Key.(string)
		if !ok {
			p.wrongType(at.Child(keyLabel(member.Key)), member.Key, "the name of a field", textHint(member.Key))
			continue
		}
		at := at.Child(label(name))
		if seen[name] {
			p.duplicate(at, name, "the field is given more than once, keep one")
			continue
		}
		seen[name] = true
		given[p.member(at, name, member.Value, s)] = true
	}
	for _, f := range s.fields {
		if f.required != "" && !given[f.name] {
			p.required(at.Child(f.name), f.required)
		}
	}
}

// keyLabel names, in a field path, a field whose name is not a string.
func keyLabel(key any) string {
	if key == nil {
		return "null"
	}
	return label(fmt.Sprint(key))
}

// member reads one field and returns the name of the property it sets, or was meant to set, or "".
func (p *parser) member(at *field.Path, name string, value any, s schema) string {
	for _, f := range s.fields {
		if f.name != name {
			continue
		}
		if value == nil {
			return ""
		}
		f.read(at, value)
		return name
	}
	misplaced := s.elsewhere(name)
	switch {
	case misplaced == "":
		return p.unknown(at, "field", name, s.names())
	case value != nil:
		p.forbidden(at, misplaced)
	}
	return ""
}

func (s schema) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// list returns the elements of a list, or reports that the value is not a list.
func (p *parser) list(at *field.Path, value any, example string) []any {
	elements, ok := value.([]any)
	if !ok {
		p.wrongType(at, value, "a list", "write "+example)
	}
	return elements
}

// counted returns the elements of a list of which a volume may have at most some number, with those
// that it has already. Anything that is beyond them is a mistake and left out.
func (p *parser) counted(at *field.Path, elements []any, already *int, most int) []any {
	*already += len(elements)
	if *already <= most {
		return elements
	}
	p.invalid(at, len(elements),
		fmt.Sprintf("the most for a volume is %d, this makes %d: use two volumes", most, *already))
	return nil
}

// text returns a string and whether it is one. YAML reads unquoted numbers and words such as yes as
// other types.
func (p *parser) text(at *field.Path, value any) (string, bool) {
	text, ok := value.(string)
	switch {
	case !ok:
		p.wrongType(at, value, "a string", textHint(value))
	case !utf8.ValidString(text):
		p.invalid(at, text, "must be valid UTF-8")
	default:
		return text, true
	}
	return "", false
}

func textHint(value any) string {
	switch value.(type) {
	case yaml.MapSlice, []any:
		return "write a text in quotes"
	default:
		return "put it in quotes"
	}
}

// boolean returns a bool. Strings are refused as core/v1 refuses them.
func (p *parser) boolean(at *field.Path, value any) bool {
	b, ok := value.(bool)
	switch {
	case ok:
	case value == "true", value == "false":
		p.wrongType(at, value, "a boolean", "drop the quotes")
	default:
		p.wrongType(at, value, "a boolean", "write true or false")
	}
	return b
}

// mode returns the permission bits of an item, or nil after a mistake. In YAML a mode is a number,
// as in core/v1: what it was written in, octal or not, is the reader's business and no longer known
// here.
func (p *parser) mode(at *field.Path, value any) *fs.FileMode {
	bits, ok := number(value)
	switch {
	case !ok:
		p.wrongType(at, value, "a number", modeHint(value))
	case bits != math.Trunc(bits):
		p.invalid(at, value, "must be a whole number from 0 to 0777 (octal)")
	case bits < 0 || bits > 0o777:
		p.invalid(at, value, "must be from 0 to 0777 (octal)"+octalHint(bits))
	default:
		mode := fs.FileMode(bits)
		return &mode
	}
	return nil
}

// userID returns the owner of an item, or nil after a mistake.
func (p *parser) userID(at *field.Path, value any) *int {
	id, ok := number(value)
	switch {
	case !ok:
		p.wrongType(at, value, "a number", numberHint(value))
	case id != math.Trunc(id) || id < 0 || id > maxID:
		p.invalid(at, value, fmt.Sprintf("must be a whole number from 0 to %d", maxID))
	default:
		user := int(id)
		return &user
	}
	return nil
}

func numberHint(value any) string {
	if text, ok := value.(string); ok {
		if _, err := strconv.Atoi(text); err == nil {
			return "drop the quotes"
		}
	}
	return "write 999, for example"
}

func modeHint(value any) string {
	if text, ok := value.(string); ok {
		if _, ok := parseOctal(text); ok {
			return "drop the quotes"
		}
	}
	return "write 0644, for example"
}

// octalHint helps a user who wrote 644 and meant 0644.
func octalHint(bits float64) string {
	decimal := strconv.FormatFloat(bits, 'f', -1, 64)
	if mode, ok := parseOctal(decimal); ok {
		return fmt.Sprintf(", %s is decimal: for octal %s write %#04o", decimal, decimal, mode)
	}
	return ""
}

// number returns any number the YAML reader gives. The loss above 2^53 is far outside of what a
// mode may be.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int:
		return float64(v), true
	case int64: // Only where int has 32 bits.
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}

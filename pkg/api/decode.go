package api

import (
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxText is how many bytes the text of items or sources may have. The reader itself limits how far aliases may blow
// a text up.
const maxText = 64 << 10

// yaml reads the text of an attribute and reports whether it could. A blank text is nil, as null is.
func (p *parser) yaml(at *field.Path, text string) (any, bool) {
	if len(text) > maxText {
		p.add(field.TooLong(at, text, maxText))
		return nil, false
	}
	if strings.Trim(text, " \t\r\n") == "" {
		return nil, true
	}
	value, err := decode(text)
	if err != nil {
		p.invalid(at, text, "must be YAML or JSON: "+reason(err))
		return nil, false
	}
	return value, true
}

// reason is the YAML reader's complaint as a one-line part of a message, with no more of the user's text than values
// may show.
func reason(err error) string {
	const maxReason = 3 * maxShown
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.ReplaceAll(text, "yaml: ", "")
	text = strings.Map(printable, text)
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return utf8.RuneError
}

// decode reads exactly one YAML (1.1) or JSON document, by the reader that Kubernetes reads its manifests with. What it
// returns is made of nil, bool, int, int64, uint64, float64, string, []any and [yaml.MapSlice], which keeps the order
// and the duplicates of an object's fields.
func decode(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	reader := yaml.NewDecoder(strings.NewReader(text))
	var doc document
	if err := reader.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := atEnd(reader); err != nil {
		return nil, err
	}
	return doc.value, refuseMerges(text, doc.value)
}

// atEnd returns an error unless nothing but comments follows the first document. The reader alone would stop there and
// leave the rest of the text unread, for example what follows the closing bracket of a JSON list. What the reader has
// to say about the rest would only mislead.
func atEnd(reader *yaml.Decoder) error {
	switch err := reader.Decode(new(document)); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return errors.New("more text follows where the value has ended, look for a bracket that closes too early")
	default:
		return errors.New("a second document follows (---), only one is read")
	}
}

// refuseMerges returns an error if the text uses merge keys (<<). The ordered decoding that the rest of the package
// relies on loses what they bring, so they show in the fields that only a plain decoding has.
func refuseMerges(text string, ordered any) error {
	if !strings.Contains(text, "<<") {
		return nil
	}
	var plain any
	if err := yaml.Unmarshal([]byte(text), &plain); err != nil {
		return err
	}
	if !sameFields(ordered, plain) {
		return errors.New("merge keys (<<) are not supported, write the fields out")
	}
	return nil
}

func sameFields(ordered, plain any) bool {
	switch o := ordered.(type) {
	case []any:
		list, ok := plain.([]any)
		if !ok || len(list) != len(o) {
			return false
		}
		for i := range o {
			if !sameFields(o[i], list[i]) {
				return false
			}
		}
	case yaml.MapSlice:
		return sameObject(o, plain)
	}
	return true
}

func sameObject(ordered yaml.MapSlice, plain any) bool {
	object, ok := plain.(map[any]any)
	last := make(map[any]any, len(ordered))
	for _, member := range ordered {
		last[member.Key] = member.Value
	}
	if !ok || len(object) != len(last) {
		return false
	}
	for key, value := range last {
		if !sameFields(value, object[key]) {
			return false
		}
	}
	return true
}

// document is any YAML value. Reading through it makes the reader use [yaml.MapSlice] for objects at every depth.
type document struct {
	value any
}

// UnmarshalYAML tries what the value may be. A list comes first because the reader would also read a list of
// {key, value} objects as a MapSlice.
func (d *document) UnmarshalYAML(unmarshal func(any) error) error {
	var list []document
	err := unmarshal(&list)
	if err == nil {
		d.value = values(list)
		return nil
	}
	if !isTypeError(err) {
		return err
	}
	var object yaml.MapSlice
	err = unmarshal(&object)
	if err == nil {
		d.value = object
		return nil
	}
	if !isTypeError(err) {
		return err
	}
	return unmarshal(&d.value)
}

func isTypeError(err error) bool {
	var typeErr *yaml.TypeError
	return errors.As(err, &typeErr)
}

func values(list []document) []any {
	vs := make([]any, len(list))
	for i, d := range list {
		vs[i] = d.value
	}
	return vs
}

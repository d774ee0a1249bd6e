package api

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
	nodes "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// How much a volume may ask for. Each limit is more than a text of maxText in the usual form can
// hold, or than anybody needs; what is within them takes some 50 ms of processor time and 30 MiB
// for a moment, at worst.
const (
	// maxText is how many bytes the text of items or sources may have.
	maxText = 64 << 10
	// maxParts is how many entries of lists and fields of objects there may be in a text, at any
	// depth.
	maxParts = 20_000
	// maxSources and maxItems are how many a volume may have, the items of all sources together.
	maxSources = 2048
	maxItems   = 4096
)

// yaml reads the text of an attribute and reports whether it could. A blank text is nil, as null
// is.
func (p *parser) yaml(at *field.Path, text string) (any, bool) {
	if len(text) > maxText {
		p.add(field.TooLong(at, text, maxText))
		return nil, false
	}
	if strings.Trim(text, " \t\r\n") == "" {
		return nil, true
	}
	if parts := countParts(text); parts > maxParts {
		p.invalid(at, text, fmt.Sprintf("has about %d entries and fields, the most is %d: name fewer keys, or "+
			"use two volumes",
			parts, maxParts))
		return nil, false
	}
	value, err := decode(text)
	if err != nil {
		p.invalid(at, text, "must be YAML or JSON: "+reason(err))
		return nil, false
	}
	return value, true
}

// reason is the YAML reader's complaint as a one-line part of a message, with no more of the user's
// text than values may show.
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

// decode reads exactly one YAML (1.1) or JSON document, by the reader that Kubernetes reads its
// manifests with. The value is made of nil, bool, int, int64, uint64, float64, string, []any
// and [yaml.MapSlice], which keeps the order and the duplicates of an object's fields.
func decode(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	if err := refuseReferences(text); err != nil {
		return nil, err
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
	return doc.value, nil
}

// atEnd returns an error unless nothing but comments follows the first document. The reader alone
// would stop there and leave the rest of the text unread, for example what follows the closing
// bracket of a JSON list. A message about the rest would only mislead.
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

// countParts returns about how many entries of lists and fields of objects a text has, without
// reading it: each begins with one of these characters, which are not all that begin one. Anything
// that is read never has more than three values for each.
func countParts(text string) int {
	parts := 0
	for i := range len(text) {
		switch text[i] {
		case '[', '{', ',':
			parts++
		case ':', '-', '?':
			if endsWord(text[i+1:]) || i > 0 && strings.ContainsRune(`"'`, rune(text[i-1])) {
				parts++
			}
		}
	}
	return parts
}

// endsWord reports whether no word goes on with the rest of a text.
func endsWord(rest string) bool {
	return rest == "" || strings.ContainsRune(" \t\r\n\"'[]{},", rune(rest[0]))
}

// refuseReferences returns an error if the text has anchors, aliases or merge keys. A few aliases
// can make much of a short text, and what merge keys bring would be lost: the reader that keeps the
// order of fields does not know them.
func refuseReferences(text string) error {
	if !strings.ContainsAny(text, "&*") && !strings.Contains(text, "<<") {
		return nil
	}
	var root nodes.Node
	if err := nodes.Unmarshal([]byte(text), &root); err != nil {
		return err
	}
	return refuseReferencesIn(&root)
}

func refuseReferencesIn(n *nodes.Node) error {
	if n.Anchor != "" || n.Kind == nodes.AliasNode {
		return fmt.Errorf("line %d: anchors and aliases (&, *) are not supported, write out what they stand for", n.Line)
	}
	for i, child := range n.Content {
		if n.Kind == nodes.MappingNode && i%2 == 0 && child.ShortTag() == "!!merge" {
			return errors.New("merge keys (<<) are not supported, write the fields out")
		}
		if err := refuseReferencesIn(child); err != nil {
			return err
		}
	}
	return nil
}

// document is any YAML value. Reading through it makes the reader use [yaml.MapSlice] for objects
// at every depth.
type document struct {
	value any
}

// UnmarshalYAML asks first whether the value is an object, because the reader would also read a
// list of {key, value} objects as a MapSlice. Only an object can be read into a struct.
func (d *document) UnmarshalYAML(unmarshal func(any) error) error {
	var object yaml.MapSlice
	err := unmarshal(&struct{}{})
	if err == nil {
		err = unmarshal(&object)
		d.value = object
		return err
	}
	if !isTypeError(err) {
		return err
	}
	var list []document
	err = unmarshal(&list)
	if err == nil {
		d.value = values(list)
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

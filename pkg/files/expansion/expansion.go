// Package expansion puts values into a text, at the places that name them. The text has no
// conditions and loops, and what is put in is not looked at again, so the cost is linear in what
// comes out.
//
// It does not know where text and values come from.
package expansion

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/rendering"
)

// Values returns the value of a name; false for a name without one.
type Values func(name string) (value []byte, found bool)

// Mistake is a place of a text that cannot be replaced.
type Mistake struct {
	// Line counts from one.
	Line int
	Name string
	// Err is why; nil if the name has no value.
	Err error
}

func (m Mistake) Error() string {
	if m.Err == nil {
		return fmt.Sprintf("line %d: no value is called %s, and it has no default", m.Line, m.Name)
	}
	return fmt.Sprintf("line %d: %s: %v", m.Line, m.Name, m.Err)
}

// mostMistakes is how many mistakes of one text are returned.
const mostMistakes = 20

// Size returns how many bytes a text has with its values, or every mistake, 20 at most. It stops
// counting above most, and returns more than that. used is called with each name whose value is put
// in.
func Size(text []byte, e api.Expand, values Values, most int, used func(name string)) (size int, mistakes []Mistake) {
	line := 1
	s := scanner{text: text, syntax: e.Syntax}
	for size <= most && len(mistakes) < mostMistakes {
		literal, p, more := s.next()
		size += len(literal)
		line += bytes.Count(literal, []byte("\n"))
		if !more {
			break
		}
		if p.name == "" {
			continue
		}
		value, isValue, err := p.value(values)
		if isValue {
			used(p.name)
		}
		n, quoteErr := rendering.QuotedSize(p.quoteOr(e.Quote), value)
		switch {
		case err != nil:
			mistakes = append(mistakes, Mistake{Line: line, Name: p.name, Err: err})
		case value == nil:
			mistakes = append(mistakes, Mistake{Line: line, Name: p.name})
		case quoteErr != nil:
			mistakes = append(mistakes, Mistake{Line: line, Name: p.name, Err: quoteErr})
		}
		size += n
		line += bytes.Count(p.source, []byte("\n"))
	}
	return size, mistakes
}

// Append appends a text with its values. [Size] must have returned no mistake.
func Append(file, text []byte, e api.Expand, values Values) []byte {
	s := scanner{text: text, syntax: e.Syntax}
	for {
		literal, p, more := s.next()
		file = append(file, literal...)
		if !more {
			return file
		}
		if p.name == "" {
			continue
		}
		value, _, _ := p.value(values)
		file = rendering.AppendQuoted(file, p.quoteOr(e.Quote), value)
	}
}

// place is where a value goes.
type place struct {
	name string
	// quote is empty where the place does not name one.
	quote api.Quote
	// byDefault is what goes there if the name has no value; nil for nothing.
	byDefault []byte
	source    []byte
}

func (p place) quoteOr(q api.Quote) api.Quote {
	if p.quote != "" {
		return p.quote
	}
	return q
}

// value returns what goes into a place; nil if there is nothing.
func (p place) value(values Values) (value []byte, isValue bool, err error) {
	if p.quote != "" && !p.quote.IsKnown() {
		return nil, false, fmt.Errorf("there is no quoting %q; there are %s", api.Shorten(string(p.quote)), api.Quotes())
	}
	if value, found := values(p.name); found {
		if value == nil {
			value = []byte{}
		}
		return value, true, nil
	}
	return p.byDefault, false, nil
}

// longestPlace is how many bytes a place may have, with its default.
const longestPlace = 4 << 10

// scanner walks through a text once.
type scanner struct {
	text   []byte
	syntax api.Syntax
	from   int // Where the next place may begin, in text.
}

// next returns some text, and the place behind it, which has no name if there is none there. It
// returns false at the end.
//
// Two dollars before a place are one, and then the place is text if it has no dollar left, as in
// the variables of containers.
func (s *scanner) next() (literal []byte, p place, more bool) {
	opening, closing := []byte("$("), byte(')')
	if s.syntax == api.SyntaxBraces {
		opening, closing = []byte("${"), '}'
	}
	for {
		i := bytes.Index(s.text[s.from:], opening)
		if i < 0 {
			literal, s.text, s.from = s.text, nil, 0
			return literal, place{}, len(literal) > 0
		}
		i += s.from
		end := bytes.IndexByte(s.text[i:min(len(s.text), i+longestPlace)], closing)
		found, isPlace := place{}, false
		if end > 0 {
			found, isPlace = parse(s.text[i+len(opening) : i+end])
		}
		if !isPlace {
			s.from = i + len(opening)
			continue
		}
		found.source = s.text[i : i+end+1]
		return s.take(i, found)
	}
}

// take returns the text before a place that begins at i, and the place.
func (s *scanner) take(i int, p place) (literal []byte, at place, more bool) {
	before := s.text[s.from:i]
	dollars := len(before) - len(bytes.TrimRight(before, "$"))
	literal = s.text[:i-(dollars+1)/2]
	if dollars%2 == 1 {
		s.text, s.from = s.text[i:], len(p.source)
		return literal, place{}, true
	}
	s.text, s.from = s.text[i+len(p.source):], 0
	return literal, p, true
}

// parse reads the text between the brackets. A text such as «date +%s», which is no name, is no
// place.
func parse(inner []byte) (place, bool) {
	end := bytes.IndexFunc(inner, func(r rune) bool { return !isNameRune(r) })
	if end < 0 {
		end = len(inner)
	}
	p, rest := place{name: string(inner[:end])}, inner[end:]
	if !IsName(p.name) {
		return place{}, false
	}
	if quote, found := bytes.CutPrefix(rest, []byte("|")); found {
		end := bytes.IndexFunc(quote, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
		if end < 0 {
			end = len(quote)
		}
		if p.quote, rest = api.Quote(quote[:end]), quote[end:]; p.quote == "" {
			return place{}, false
		}
	}
	if text, found := bytes.CutPrefix(rest, []byte(":-")); found {
		p.byDefault, rest = append([]byte{}, text...), nil
	}
	return p, len(rest) == 0
}

// IsName reports whether a value can have a name: that of an environment variable. The library
// takes microseconds to explain that one cannot, and a text can ask half a million times.
func IsName(name string) bool {
	isOther := func(r rune) bool { return !isNameRune(r) }
	return name != "" && (name[0] < '0' || name[0] > '9') && name != "." && !strings.HasPrefix(name, "..") &&
		!strings.ContainsFunc(name, isOther)
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._", r)
}

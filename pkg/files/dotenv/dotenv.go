// Package dotenv reads and writes files of environment variables, in a form that every POSIX shell
// reads alike:
//
//	# A comment, also behind a value.
//	HOST='db.example.com'
//	MOTTO='it'\''s fine'
//	export TEXT='two
//	lines'
//	PORT=5432
//	PRICE="5 \$ or more"
//
// Each line is blank, a comment, or one assignment; a value goes on over line breaks in quotes. A
// name is one of a shell: letters, digits and underscores, not a digit first. There is no blank on
// either side of the equals sign. «export» may stand before a name and means nothing. Of two
// assignments to one name the later counts.
//
// A value is made of parts that stand together without a blank:
//
//   - 'text' is what stands between the quotes, byte by byte. A single quote itself is written as
//     '\”.
//   - "text" is the same, but for a backslash, which stands before each of " \ $ ` and before
//     nothing else.
//   - Outside quotes, the bytes A-Z a-z 0-9 _ . / : @ % + , = - stand for themselves, and a
//     backslash before any other printable byte for that.
//
// Nothing is expanded. Text that a shell would expand, or that readers of such files read
// differently, is refused, so that whatever Parse takes means the same after `. ./file` in sh. NUL
// bytes are refused, which no variable can hold.
//
// The package does not know where files come from, nor which variables there are. Its errors have
// line numbers and nothing that stands in the file: where quotes are missing, what looks like a
// name may be a part of a value.
package dotenv

import (
	"bytes"
	"fmt"
	"strings"
)

// Variable is one assignment.
type Variable struct {
	Name  string
	Value string
}

// SyntaxError is a mistake in a file. It holds no value.
type SyntaxError struct {
	// Line is counted from 1; of a value of several lines it is the one with the mistake, or on
	// which a quote is opened that nothing closes.
	Line int
	// Problem is what is wrong and what to write.
	Problem string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// Parse returns the assignments in their order.
func Parse(data []byte) ([]Variable, error) {
	p := &parser{data: data, line: 1}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return nil, p.mistake("the file begins with a byte order mark: save it as UTF-8 without one")
	}
	var all []Variable
	for p.skipBlanks(); !p.atEnd(); p.skipBlanks() {
		v, err := p.assignment()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// IsName reports whether a shell takes name for that of a variable.
func IsName(name string) bool {
	for i := range len(name) {
		if !isLetter(name[i]) && (i == 0 || !isDigit(name[i])) {
			return false
		}
	}
	return name != ""
}

// Append appends a line with an assignment, with the value in single quotes. The name must be one
// by [IsName], and the value without NUL bytes: Parse takes no others.
func Append(file []byte, name string, value []byte) []byte {
	file = append(append(file, name...), assign...)
	for {
		quote := bytes.IndexByte(value, '\'')
		if quote < 0 {
			return append(append(file, value...), end...)
		}
		file = append(append(file, value[:quote]...), escapedQuote...)
		value = value[quote+1:]
	}
}

// Size returns how many bytes Append appends.
func Size(name string, value []byte) int {
	quotes := bytes.Count(value, []byte("'"))
	return len(name) + len(assign) + len(value) + quotes*(len(escapedQuote)-1) + len(end)
}

// The texts that Append writes around a value, and for a quote in it: the quoted text ends, a quote
// by itself follows, and another quoted text begins.
const (
	assign       = "='"
	end          = "'\n"
	escapedQuote = `'\''`
)

func isLetter(c byte) bool { return c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isPlain reports whether c means itself to every reader, outside quotes and at any place of a
// value. A tilde does not.
func isPlain(c byte) bool { return isLetter(c) || isDigit(c) || strings.IndexByte("./:@%+,=-", c) >= 0 }

func isPrintable(c byte) bool { return ' ' <= c && c <= '~' }

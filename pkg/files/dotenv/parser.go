package dotenv

import (
	"bytes"
	"fmt"
)

// parser goes through a file from its first byte to its last.
type parser struct {
	data []byte
	next int
	line int
}

func (p *parser) atEnd() bool { return p.next == len(p.data) }

// peek returns the next byte, or a line feed at the end of the file: what ends a line ends there.
func (p *parser) peek() byte {
	if p.atEnd() {
		return '\n'
	}
	return p.data[p.next]
}

// take returns the next byte, which is there, and goes on.
func (p *parser) take() byte {
	c := p.data[p.next]
	p.next++
	if c == '\n' {
		p.line++
	}
	return c
}

func (p *parser) mistake(format string, args ...any) error {
	return &SyntaxError{Line: p.line, Problem: fmt.Sprintf(format, args...)}
}

// skipBlanks goes to the next assignment: over blanks, empty lines and comments.
func (p *parser) skipBlanks() {
	for !p.atEnd() {
		switch p.peek() {
		case ' ', '\t', '\n':
			p.take()
		case '#':
			p.skipComment()
		default:
			return
		}
	}
}

func (p *parser) skipComment() {
	rest := p.data[p.next:]
	if length := bytes.IndexByte(rest, '\n'); length >= 0 {
		rest = rest[:length]
	}
	p.next += len(rest)
}

// skipSpace goes over blanks within a line and returns how many there were.
func (p *parser) skipSpace() int {
	start := p.next
	for p.peek() == ' ' || p.peek() == '\t' {
		p.take()
	}
	return p.next - start
}

func (p *parser) assignment() (Variable, error) {
	name, err := p.name()
	if err != nil {
		return Variable{}, err
	}
	value, err := p.value()
	if err != nil {
		return Variable{}, err
	}
	return Variable{Name: name, Value: value}, p.endOfLine()
}

// name reads up to the equals sign, and over it.
func (p *parser) name() (string, error) {
	name := p.word()
	if name == "export" && p.skipSpace() > 0 {
		name = p.word()
	}
	switch {
	case p.peek() == '=' && IsName(name):
		p.take()
		return name, nil
	case p.peek() == '=' && name != "":
		return "", p.mistake("a name cannot begin with a digit")
	case name != "" && p.skipSpace() > 0 && p.peek() == '=':
		return "", p.mistake("there is a blank before the =: remove it")
	}
	return "", p.mistake("not an assignment: write NAME='value', with a name of letters, digits and _")
}

// word reads what a name is made of.
func (p *parser) word() string {
	start := p.next
	for isLetter(p.peek()) || isDigit(p.peek()) {
		p.take()
	}
	return string(p.data[start:p.next])
}

func (p *parser) value() (string, error) {
	if c := p.peek(); c == ' ' || c == '\t' {
		return p.empty()
	}
	var value []byte
	for {
		part, err := p.part()
		if err != nil || part == nil {
			return string(value), err
		}
		value = append(value, part...)
	}
}

// empty is a value of nothing, behind which only a comment may come: a shell would take a word
// there for a program.
func (p *parser) empty() (string, error) {
	p.skipSpace()
	if c := p.peek(); c != '\n' && c != '#' {
		return "", p.mistake("there is a blank behind the =: remove it, or put it into quotes with the value")
	}
	return "", nil
}

// part reads one part of a value. It returns nil where the value ends.
func (p *parser) part() ([]byte, error) {
	switch c := p.peek(); {
	case c == '\'':
		return p.singleQuoted()
	case c == '"':
		return p.doubleQuoted()
	case c == '\\':
		return p.escaped()
	case isPlain(c):
		return []byte{p.take()}, nil
	case c == ' ' || c == '\t' || c == '\n':
		return nil, nil
	default:
		return nil, p.unquoted(c)
	}
}

func (p *parser) singleQuoted() ([]byte, error) {
	opened := p.line
	p.take()
	text := []byte{}
	for !p.atEnd() {
		switch c := p.take(); c {
		case '\'':
			return text, nil
		case 0:
			return nil, p.nul()
		default:
			text = append(text, c)
		}
	}
	p.line = opened
	return nil, p.mistake("a single quote is not closed; one in a value is written as '\\''")
}

func (p *parser) doubleQuoted() ([]byte, error) {
	opened := p.line
	p.take()
	text := []byte{}
	for !p.atEnd() {
		c := p.peek()
		switch c {
		case '"':
			p.take()
			return text, nil
		case 0:
			return nil, p.nul()
		case '$', '`':
			return nil, p.expansion(c)
		case '\\':
			if err := p.quotedBackslash(); err != nil {
				return nil, err
			}
		}
		if !p.atEnd() {
			text = append(text, p.take())
		}
	}
	p.line = opened
	return nil, p.mistake("a double quote is not closed; one in a value is written as \\\"")
}

// quotedBackslash goes over a backslash in double quotes, to the byte that it stands before.
func (p *parser) quotedBackslash() error {
	p.take()
	switch p.peek() {
	case '"', '\\', '$', '`':
		return nil
	}
	return p.mistake("a backslash in double quotes stands before something else than \" \\ $ or `, " +
		"about which readers of such files differ: write \\\\ for a backslash, and a line break as it is")
}

func (p *parser) escaped() ([]byte, error) {
	p.take()
	if p.atEnd() || !isPrintable(p.peek()) {
		return nil, p.mistake("a backslash stands before nothing that can be printed: put the value into single quotes")
	}
	return []byte{p.take()}, nil
}

func (p *parser) unquoted(c byte) error {
	switch c {
	case 0:
		return p.nul()
	case '$', '`':
		return p.expansion(c)
	case '\r':
		return p.mistake("there is a carriage return outside quotes: save the file with line feeds alone")
	}
	return p.mistake("the value has something in it that must be quoted: put it into single quotes")
}

func (p *parser) expansion(c byte) error {
	return p.mistake("there is a %c outside single quotes, and nothing is expanded here: put the value into single "+
		"quotes, or write \\%c", c, c)
}

func (p *parser) nul() error {
	return p.mistake("there is a NUL byte, which no variable can hold")
}

// endOfLine sees that nothing but a comment follows a value.
func (p *parser) endOfLine() error {
	p.skipSpace()
	switch p.peek() {
	case '\n':
		return nil
	case '#':
		p.skipComment()
		return nil
	case '\r':
		return p.unquoted('\r')
	}
	return p.mistake("something follows the value: write one assignment a line, and put a value with blanks into " +
		"single quotes")
}

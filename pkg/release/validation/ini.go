package validation

import (
	"errors"
	"strings"
)

// parseINI returns an object of sections, which are objects of texts. Keys before the first section
// are beside the sections, and so are those of the section DEFAULT. The last value of a key counts.
func parseINI(text []byte) ([]document, error) {
	p := ini{lines: strings.Split(string(text), "\n"), root: map[string]any{}}
	p.section, p.sections = p.root, map[string]map[string]any{}
	for p.at < len(p.lines) {
		line := p.at + 1
		if err := p.statement(); err != nil {
			return nil, &syntaxError{line: line, err: err}
		}
	}
	for name, section := range p.sections {
		p.root[name] = section
	}
	return []document{{value: p.root}}, nil
}

// ini reads a text of lines. It takes what Python's configparser, MySQL, supervisord and Grafana
// take, and replaces nothing in values: those programs do so in different ways.
type ini struct {
	lines    []string
	at       int // The next line.
	root     map[string]any
	sections map[string]map[string]any
	section  map[string]any // The one that the next key belongs to.
}

// quotes may be around names and values.
func quotes() []string { return []string{`"""`, "`", `"`, "'"} }

// linesIn is how many of [quotes] may have several lines between them: the first ones.
const linesIn = 2

// next returns the next line without the white space around it, and how many bytes of it are in
// front.
func (p *ini) next() (line string, indent int) {
	line = p.lines[p.at]
	p.at++
	rest := strings.TrimLeft(line, " \t\r\f\v")
	return strings.TrimSpace(rest), len(line) - len(rest)
}

// statement reads a section, or a key with its value.
func (p *ini) statement() error {
	line, indent := p.next()
	switch {
	case line == "", line[0] == '#', line[0] == ';':
	case strings.HasPrefix(line, "!include"): // MySQL reads another file there.
	case line[0] == '[':
		return p.header(line)
	default:
		return p.assignment(line, indent)
	}
	return nil
}

// header reads the name of a section, which goes on if there was one of that name.
func (p *ini) header(line string) error {
	if text := withoutComment(line); strings.HasSuffix(text, "]") {
		line = text // A comment may have a ] too.
	}
	end := strings.LastIndexByte(line, ']')
	if end < 0 {
		return errors.New("the section has no ]")
	}
	name := line[1:end]
	if name == "DEFAULT" {
		p.section = p.root
		return nil
	}
	if p.sections[name] == nil {
		p.sections[name] = map[string]any{}
	}
	p.section = p.sections[name]
	return nil
}

// assignment reads a key with its value. A key without a value has an empty one.
func (p *ini) assignment(line string, indent int) error {
	end := strings.IndexAny(line, "=:")
	if end < 0 {
		line = withoutComment(line)
		end = len(line)
	}
	name := unquoted(strings.TrimSpace(line[:end]))
	if name == "" {
		return errors.New("there is no key before the value")
	}
	value, err := p.value(line[min(end+1, len(line)):])
	if err != nil {
		return err
	}
	p.section[name] = p.continued(value, indent)
	return nil
}

// continued reads the lines that go on with a value: those with more white space in front than the
// line of the key has.
func (p *ini) continued(value string, indent int) string {
	parts := []string{value}
	for p.at < len(p.lines) {
		line, deeper := p.next()
		switch {
		case line == "", line[0] == '#', line[0] == ';':
		case deeper > indent:
			parts = append(parts, withoutComment(line))
		default:
			p.at--
			return strings.TrimPrefix(strings.Join(parts, "\n"), "\n")
		}
	}
	return strings.TrimPrefix(strings.Join(parts, "\n"), "\n")
}

// value reads a value from the rest of a line, and from more lines after a backslash or an open
// quote.
func (p *ini) value(rest string) (string, error) {
	trimmed := strings.TrimSpace(rest)
	for _, quote := range quotes()[:linesIn] {
		if inside, isQuoted := strings.CutPrefix(trimmed, quote); isQuoted {
			return p.quoted(inside, quote)
		}
	}
	if strings.HasSuffix(trimmed, `\`) {
		return p.joined(trimmed), nil
	}
	for _, quote := range quotes()[linesIn:] {
		inside, isQuoted := strings.CutPrefix(trimmed, quote)
		if value, after, isClosed := strings.Cut(inside, quote); isQuoted && isClosed && withoutComment(" "+after) == "" {
			return value, nil
		}
	}
	return withoutComment(rest), nil
}

// quoted reads until a quote, which may be on a later line.
func (p *ini) quoted(inside, quote string) (string, error) {
	var value strings.Builder
	for {
		part, _, isClosed := strings.Cut(inside, quote)
		value.WriteString(part)
		if isClosed {
			return value.String(), nil
		}
		if p.at == len(p.lines) {
			return "", errors.New("the quote before the value is not closed")
		}
		value.WriteString("\n")
		inside = p.lines[p.at]
		p.at++
	}
}

// joined reads lines that end in a backslash, and the one after them.
func (p *ini) joined(line string) string {
	var value strings.Builder
	for {
		part, goesOn := strings.CutSuffix(line, `\`)
		value.WriteString(part)
		if !goesOn || p.at == len(p.lines) {
			return value.String()
		}
		line, _ = p.next()
	}
}

// withoutComment removes a comment, which begins after white space, and the white space around the
// rest. A value may have such a sign inside, as a color or a list does.
func withoutComment(text string) string {
	for i := 1; i < len(text); i++ {
		if (text[i] == '#' || text[i] == ';') && (text[i-1] == ' ' || text[i-1] == '\t') {
			text = text[:i]
		}
	}
	return strings.TrimSpace(text)
}

func unquoted(text string) string {
	for _, quote := range quotes() {
		if inside, isQuoted := strings.CutPrefix(text, quote); isQuoted {
			if inside, isClosed := strings.CutSuffix(inside, quote); isClosed {
				return inside
			}
		}
	}
	return text
}

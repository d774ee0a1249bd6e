package validation

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// mostNesting is how deep values may be inside each other. Libraries recurse for each level, and
// some take time or memory by the square of it.
const mostNesting = 100

// mostAliased is how many values the aliases of a YAML document may stand for: some hundred bytes
// of aliases can stand for more values than any machine holds.
const mostAliased = 100_000

// tooDeep is why a text is not parsed. It has the line of the first value that is too deep.
func tooDeep(line int) error {
	return &syntaxError{line: line, err: fmt.Errorf("it is nested deeper than %d levels", mostNesting)}
}

// nestingOfJSON refuses a text that is nested too deep. Whether it is JSON is not its business.
func nestingOfJSON(text []byte) error {
	line, depth := 1, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n':
			line++
		case '"':
			i = endOfString(text, i)
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > mostNesting {
			return tooDeep(line)
		}
	}
	return nil
}

// endOfString returns where the string that begins at an offset ends: at its quote, or before the
// end of the line, where a string has not been closed.
func endOfString(text []byte, i int) int {
	for quote, i := text[i], i+1; i < len(text); i++ {
		switch text[i] {
		case quote:
			return i
		case '\n':
			return i - 1
		case '\\':
			if quote == '"' {
				i++
			}
		}
	}
	return len(text)
}

// nestingOfTOML refuses a text in which lists, inline tables, or the parts of a key with dots are
// nested too deep. Whether it is TOML is not its business.
func nestingOfTOML(text []byte) error {
	line, depth, dots := 1, 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n':
			line, dots = line+1, 0
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			from := i
			i = endOfText(text, i)
			line += countLines(text[from:min(i, len(text))])
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth, dots = depth-1, 0
		case ',', '=':
			dots = 0
		case '.':
			dots++
		}
		if depth > mostNesting || dots >= mostNesting {
			return tooDeep(line)
		}
	}
	return nil
}

func countLines(text []byte) (lines int) {
	for _, b := range text {
		if b == '\n' {
			lines++
		}
	}
	return lines
}

// endOfText is [endOfString] for TOML, which has strings of several lines between three quotes.
func endOfText(text []byte, from int) int {
	quote := text[from]
	isLong := func(i int) bool {
		return i+2 < len(text) && text[i] == quote && text[i+1] == quote && text[i+2] == quote
	}
	if !isLong(from) {
		return endOfString(text, from)
	}
	for i := from + 3; i < len(text); i++ {
		switch {
		case isLong(i):
			return i + 2
		case text[i] == '\\' && quote == '"':
			i++
		}
	}
	return len(text)
}

// nestingOfYAML refuses a document that is nested too deep, also through its aliases, and one whose
// aliases stand for too many values. The parser has made nodes of it, each once: it allows 10,000
// levels.
func nestingOfYAML(n *yaml.Node) error {
	_, err := (&weights{of: map[*yaml.Node]weight{}}).weigh(n, -1) // The document itself is no level.
	return err
}

// weights remembers what the values with an anchor weigh, so that each is looked at once.
type weights struct {
	of      map[*yaml.Node]weight
	aliased int
}

// weight is what a value is when its aliases are replaced.
type weight struct{ nodes, levels int }

// weigh returns what a value at a depth weighs.
func (w *weights) weigh(n *yaml.Node, depth int) (weight, error) {
	if n.Kind == yaml.AliasNode {
		return w.alias(n, depth)
	}
	if depth > mostNesting {
		return weight{}, tooDeep(n.Line)
	}
	sum := weight{nodes: 1}
	for _, child := range n.Content {
		inside, err := w.weigh(child, depth+1)
		if err != nil {
			return weight{}, err
		}
		sum.nodes, sum.levels = sum.nodes+inside.nodes, max(sum.levels, inside.levels+1)
	}
	if n.Anchor != "" {
		w.of[n] = sum
	}
	return sum, nil
}

// alias weighs what an alias stands for, which comes before it. A value that contains itself is not
// known yet, and left to the decoder, which refuses it.
func (w *weights) alias(n *yaml.Node, depth int) (weight, error) {
	of := w.of[n.Alias]
	if w.aliased += of.nodes; w.aliased > mostAliased {
		return weight{}, &syntaxError{line: n.Line, err: fmt.Errorf("its aliases stand for more than %d values", mostAliased)}
	}
	if depth+of.levels > mostNesting {
		return weight{}, tooDeep(n.Line)
	}
	return of, nil
}

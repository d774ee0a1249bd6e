package validation

import (
	"bytes"
	"encoding/json"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// linesOf returns the lines of values in a document; 0 for those that are not known.
func (d document) linesOf(paths [][]string) []int {
	lines := make([]int, len(paths))
	if d.json != nil {
		return linesInJSON(d.json, paths)
	}
	for i, path := range paths {
		lines[i] = lineOf(d.node, path)
	}
	return lines
}

// lineOf returns the line of a value in a document; 0 if it is not known.
func lineOf(n *yaml.Node, path []string) int {
	if n == nil {
		return 0
	}
	for _, name := range path {
		next := child(n, name)
		if next == nil {
			break // Where it should be is near enough.
		}
		n = next
	}
	return n.Line
}

func child(n *yaml.Node, name string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	return nil
}

// linesInJSON reads the text once for all paths: to keep the place of every value, as for YAML,
// takes many times the memory of the text.
func linesInJSON(text []byte, paths [][]string) []int {
	root := &place{}
	for _, path := range paths {
		root.find(path)
	}
	r := jsonPlaces{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), line: 1}
	r.decoder.UseNumber() // Else it refuses numbers that are too large for a float.
	r.value(root)
	lines := make([]int, len(paths))
	for i, path := range paths {
		at := root
		for lines[i] = at.line; len(path) > 0; path = path[1:] {
			if at = at.inside[path[0]]; at.line == 0 {
				break // Where it should be is near enough.
			}
			lines[i] = at.line
		}
	}
	return lines
}

// place is a value whose line is wanted, or the line of one inside it. It is nil for others.
type place struct {
	line   int // From 1; 0 if there is no such value.
	inside map[string]*place
}

// find adds a place inside this one.
func (p *place) find(path []string) {
	for _, name := range path {
		if p.inside == nil {
			p.inside = map[string]*place{}
		}
		if p.inside[name] == nil {
			p.inside[name] = &place{}
		}
		p = p.inside[name]
	}
}

func (p *place) get(name string) *place {
	if p == nil {
		return nil
	}
	return p.inside[name]
}

// jsonPlaces reads JSON that is right.
type jsonPlaces struct {
	text    []byte
	decoder *json.Decoder
	offset  int64
	line    int // Of the offset.
}

// token returns the next token; nil at the end, and for null.
func (r *jsonPlaces) token() json.Token {
	token, err := r.decoder.Token()
	if err != nil {
		return nil
	}
	now := r.decoder.InputOffset()
	r.line += bytes.Count(r.text[r.offset:now], []byte("\n"))
	r.offset = now
	return token
}

// value reads a value, and stores the lines in its place.
func (r *jsonPlaces) value(p *place) {
	token := r.token()
	if p != nil {
		p.line = r.line
	}
	switch token {
	case json.Delim('{'):
		for r.decoder.More() {
			name, _ := r.token().(string)
			r.value(p.get(name))
		}
	case json.Delim('['):
		for i := 0; r.decoder.More(); i++ {
			r.value(p.get(strconv.Itoa(i)))
		}
	default:
		return
	}
	r.token() // The end of the object or list.
}

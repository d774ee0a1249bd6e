package template

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// writtenName is where the long form names a source.
type writtenName struct {
	// index is that of the list's element. Elements that name no source make it another than that
	// of the source.
	index int
	name  string
	// start is where in the text the name's own characters begin, or -1 where they are not to be
	// seen.
	start int
	// plain means that nothing keeps YAML from taking the name for a number, such as quotes or a
	// tag, unless it is asText.
	plain bool
}

// locate finds where a valid text names its sources. [api.Parse] alone decides what the text means:
// this reader is another, which knows positions, and where the two disagree there is nothing to be
// seen.
func locate(text string, sources []api.Source) []writtenName {
	names := nameNodes(text)
	if len(names) != len(sources) {
		names = make([]nameNode, len(sources))
		for i := range names {
			names[i].index = i
		}
	}
	offsets := offsets(text, names)
	written := make([]writtenName, len(sources))
	for i, name := range names {
		written[i] = writtenName{index: name.index, name: sources[i].Ref.Name, start: -1}
		if at, found := offsets[name.position]; found {
			skipped, plain := beforeCharacters(text[at:])
			if strings.HasPrefix(text[at+skipped:], written[i].name) {
				written[i].start, written[i].plain = at+skipped, plain
			}
		}
	}
	return written
}

// nameNode is the node of a name. Its position is zero if the name is absent.
type nameNode struct {
	index int
	position
}

// position counts lines and characters from one.
type position struct{ line, column int }

// nameNodes returns the nodes that name the sources of a list.
func nameNodes(text string) []nameNode {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) == 0 {
		return nil
	}
	var names []nameNode
	for i, entry := range document.Content[0].Content {
		for _, key := range []string{api.KeyConfigMap, api.KeySecret} {
			source := member(entry, key)
			if source == nil || source.Kind != yaml.MappingNode {
				continue
			}
			found := nameNode{index: i}
			if name := member(source, "name"); name != nil {
				found.position = position{line: name.Line, column: name.Column}
			}
			names = append(names, found)
		}
	}
	return names
}

// member returns the value of a field, or nil.
func member(object *yaml.Node, name string) *yaml.Node {
	if object.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	return nil
}

// offsets returns the positions of the nodes in bytes. The reader counts characters, does not count
// a byte-order mark, and knows more line breaks than most.
func offsets(text string, names []nameNode) map[position]int {
	const byteOrderMark, nextLine, lineSeparator, paragraphSeparator = '\ufeff', '\u0085', '\u2028', '\u2029'
	wanted := make(map[position]bool, len(names))
	for _, name := range names {
		wanted[name.position] = true
	}
	found := make(map[position]int, len(names))
	at := position{line: 1, column: 1}
	for i, character := range text {
		if i == 0 && character == byteOrderMark {
			continue
		}
		if wanted[at] {
			found[at] = i
		}
		switch character {
		case '\r':
			if strings.HasPrefix(text[i+1:], "\n") {
				continue // The two are one break.
			}
			fallthrough
		case '\n', nextLine, lineSeparator, paragraphSeparator:
			at = position{line: at.line + 1, column: 1}
		default:
			at.column++
		}
	}
	return found
}

// beforeCharacters returns how many bytes of a node come before its own characters, and whether
// these are plain. There may be tags, comments, the head of a block, and a quote.
func beforeCharacters(text string) (skipped int, plain bool) {
	const breaks = "\r\n\u0085\u2028\u2029"
	const blanks = " \t" + breaks
	plain = true
	for {
		skipped = len(text) - len(strings.TrimLeft(text[skipped:], blanks))
		rest, end := text[skipped:], 0
		switch {
		case strings.HasPrefix(rest, "!"):
			plain = false
			end = strings.IndexAny(rest, blanks)
		case strings.HasPrefix(rest, "|"), strings.HasPrefix(rest, ">"):
			plain = false
			end = strings.IndexAny(rest, breaks)
		case strings.HasPrefix(rest, "#"):
			end = strings.IndexAny(rest, breaks)
		case strings.HasPrefix(rest, `"`), strings.HasPrefix(rest, "'"):
			return skipped + 1, false
		}
		if end <= 0 {
			return skipped, plain || strings.HasSuffix(text[:skipped], asText)
		}
		skipped += end
	}
}

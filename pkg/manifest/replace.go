package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Replacement puts another field in the place of one of an object.
type Replacement struct {
	// Object is the path to the object.
	Object Path
	// From is the field that goes, To the one that comes. Without From a field is added, and
	// without To one is removed.
	From, To string
	Value    any
}

// Replace returns the document's text with what was replaced, and everything else as it was,
// comments included, wherever the text is made of lines. Comments inside of what is replaced move
// above it. Where an object is written in braces, the document is formatted again: a document that
// is all in braces stays KYAML, or JSON. Dropped are the comments that are lost.
func (d Document) Replace(replacements []Replacement) (text string, dropped []string, err error) {
	if len(replacements) == 0 {
		return d.part.Text, nil, nil
	}
	want, err := d.replaced(replacements)
	if err != nil {
		return "", nil, err
	}
	if text, err = d.rewritten(replacements, want); err != nil {
		return "", nil, err
	}
	text = d.withLineEnds(text)
	return text, d.dropped(text), nil
}

// withLineEnds returns a text with the ends of lines that the document has.
func (d Document) withLineEnds(text string) string {
	if ends := strings.Count(d.part.Text, "\r\n"); ends > 0 && ends == strings.Count(d.part.Text, "\n") {
		return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	}
	return text
}

// dropped returns the comments of the document that a text does not have.
func (d Document) dropped(text string) []string {
	return slices.DeleteFunc(commentsOf(d.root), func(comment string) bool { return strings.Contains(text, comment) })
}

func (d Document) rewritten(replacements []Replacement, want any) (string, error) {
	if json.Valid([]byte(d.part.Text)) {
		return indented(want)
	}
	if d.isInBraces() {
		if text, ok := d.byNodes(replacements); ok {
			if text, ok = asKYAML(text); ok && means(text, want) {
				return text, nil
			}
		}
	}
	for _, way := range []func([]Replacement) (string, bool){d.byLines, d.byNodes} {
		if text, ok := way(replacements); ok && means(text, want) {
			return text, nil
		}
	}
	text, err := sigsyaml.Marshal(want)
	return string(text), err
}

// commentsOf returns the lines of all comments of a node and below it.
func commentsOf(node *yaml.Node) []string {
	if node == nil {
		return nil
	}
	var lines []string
	for _, comment := range []string{node.HeadComment, node.LineComment, node.FootComment} {
		for line := range strings.Lines(comment) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
	}
	for _, below := range node.Content {
		lines = append(lines, commentsOf(below)...)
	}
	return lines
}

// replaced returns the data with what was replaced.
func (d Document) replaced(replacements []Replacement) (any, error) {
	var data any
	if err := Convert(d.Data, &data); err != nil {
		return nil, err
	}
	for _, r := range replacements {
		object, ok := at(data, r.Object).(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", r.Object)
		}
		delete(object, r.From)
		if r.To != "" {
			object[r.To] = r.Value
		}
	}
	return data, nil
}

func at(value any, path Path) any {
	for _, step := range path {
		if step.Field != "" {
			object, _ := value.(map[string]any)
			value = object[step.Field]
			continue
		}
		list, _ := value.([]any)
		if step.Index >= len(list) {
			return nil
		}
		value = list[step.Index]
	}
	return value
}

// means reports whether a text has exactly the wanted meaning.
func means(text string, want any) bool {
	read, err := Parse(Part{Text: text})
	if err != nil {
		return false
	}
	var plain any
	return Convert(want, &plain) == nil && reflect.DeepEqual(read.Data, plain)
}

func indented(value any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(value)
	return b.String(), err
}

// byLines replaces the lines of the fields. The last one goes first, so that the lines of those
// before it stay. A field that is added has no line.
func (d Document) byLines(replacements []Replacement) (string, bool) {
	if slices.ContainsFunc(replacements, func(r Replacement) bool { return r.From == "" }) {
		return "", false
	}
	lines := strings.SplitAfter(d.part.Text, "\n")
	sorted := slices.Clone(replacements)
	slices.SortFunc(sorted, func(a, b Replacement) int {
		return d.Line(b.Object.Field(b.From)) - d.Line(a.Object.Field(a.From))
	})
	for _, r := range sorted {
		at, block, ok := d.block(r, lines)
		if !ok {
			return "", false
		}
		first, indent := at.Line-1, at.Column-1
		head := lines[first][:indent]
		isFirst := strings.Contains(head, "-") // Of an element of a list.
		if strings.Trim(head, " -") != "" || r.To == "" && isFirst {
			return "", false
		}
		last := end(lines, first, indent)
		if r.To == "" {
			lines = slices.Delete(lines, first, last)
			continue
		}
		lines = slices.Replace(lines, first, last,
			head+strings.TrimPrefix(indentedBy(block, indent), strings.Repeat(" ", indent)))
	}
	return strings.Join(lines, ""), true
}

// end returns the line after the last one of what begins on a line, which is deeper than its
// indent. Blank lines and comments after it are not its own.
func end(lines []string, first, indent int) int {
	last := first + 1
	for i := last; i < len(lines); i++ {
		text := strings.TrimSpace(lines[i])
		depth := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
		if text != "" && depth <= indent {
			break
		}
		if text != "" && !strings.HasPrefix(text, "#") {
			last = i + 1
		}
	}
	return last
}

// block returns the node whose lines go, and the lines that come: a field with its value, or all of
// an object that is in braces. The comments on the lines that go come first.
func (d Document) block(r Replacement, lines []string) (at *yaml.Node, block string, ok bool) {
	value, err := readable(r.Value)
	object, whole := d.reach(r.Object)
	if err != nil || !whole || object.Kind != yaml.MappingNode {
		return nil, "", false
	}
	field, ok := fieldOf(object, r.From)
	if !ok {
		return nil, "", false
	}
	at = object
	if object.Style&yaml.FlowStyle == 0 {
		at = object.Content[field]
	}
	if r.To == "" {
		return at, "", at != object
	}
	name := &yaml.Node{
		Kind: yaml.ScalarNode, Value: r.To, HeadComment: commentsOn(lines, at, object.Content[field:field+2]),
	}
	if at != object {
		block, err = encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{name, value}})
		return at, block, err == nil
	}
	opened := *object
	opened.Style, opened.HeadComment, opened.LineComment = 0, object.LineComment, ""
	opened.Content = slices.Clone(object.Content)
	opened.Content[field], opened.Content[field+1] = name, value
	block, err = encode(&opened)
	return at, block, err == nil
}

// commentsOn returns the comments of nodes that are on the lines which begin with a node. Those
// above and below stay where they are.
func commentsOn(lines []string, begin *yaml.Node, nodes []*yaml.Node) string {
	first, indent := begin.Line-1, begin.Column-1
	text := strings.Join(lines[first:end(lines, first, indent)], "")
	var found []string
	for _, node := range nodes {
		for _, comment := range commentsOf(node) {
			if strings.Contains(text, comment) {
				found = append(found, comment)
			}
		}
	}
	return strings.Join(found, "\n")
}

// fieldOf returns where among an object's nodes the name of a field is.
func fieldOf(object *yaml.Node, name string) (at int, ok bool) {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return i, true
		}
	}
	return 0, false
}

func indentedBy(block string, indent int) string {
	return regexp.MustCompile(`(?m)^.*\S`).ReplaceAllString(block, strings.Repeat(" ", indent)+"$0")
}

// byNodes replaces the nodes of the fields, and writes the document again with its comments.
func (d Document) byNodes(replacements []Replacement) (string, bool) {
	if d.root == nil {
		return "", false
	}
	fresh, err := Parse(d.part)
	if err != nil {
		return "", false
	}
	for _, r := range replacements {
		object, whole := reach(fresh.root, r.Object)
		if !whole || object.Kind != yaml.MappingNode || !r.inNode(object) {
			return "", false
		}
	}
	text, err := encode(fresh.root)
	return text, err == nil
}

// inNode replaces the field of an object's node, and reports whether that has the field.
func (r Replacement) inNode(object *yaml.Node) bool {
	value, err := readable(r.Value)
	if err != nil {
		return false
	}
	if r.From == "" {
		object.Content = append(object.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: r.To}, value)
		return true
	}
	field, ok := fieldOf(object, r.From)
	if !ok {
		return false
	}
	if r.To == "" {
		object.Content = slices.Delete(object.Content, field, field+2)
		return true
	}
	key := object.Content[field]
	inside := commentsOf(object.Content[field+1])
	if key.LineComment != "" {
		inside = append([]string{key.LineComment}, inside...)
	}
	key.HeadComment = strings.TrimPrefix(key.HeadComment+"\n"+strings.Join(inside, "\n"), "\n")
	key.Value, key.LineComment, object.Content[field+1] = r.To, "", value
	return true
}

package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Document is one manifest.
type Document struct {
	// Data is what the API server would be sent: maps, lists, texts, numbers and booleans of JSON.
	Data any
	part Part
	root *yaml.Node // Knows positions and nothing else. Nil where the document cannot be read by lines.
}

// SyntaxError means that a document is neither YAML nor JSON.
type SyntaxError struct {
	Line int
	Err  error
	// isAboutLine is true if the reader has named the line.
	isAboutLine bool
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the error of the reader.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Reason returns why the document cannot be read, without a part of its text. An error of the
// reader about a line is about the characters that YAML is written with; anything else can quote a
// value.
func (e *SyntaxError) Reason() string {
	if e.isAboutLine {
		return e.Err.Error()
	}
	return "it is not YAML or JSON that makes an object: an unknown name after *, a tag after !, or a key that is " +
		"not a string; put values and keys that begin with *, !, {, [ or & into quotes"
}

// Parse reads a part of a file, as kubectl reads it.
func Parse(part Part) (Document, error) {
	d := Document{part: part}
	isJSON := strings.HasPrefix(strings.TrimSpace(part.Text), "{") && json.Unmarshal([]byte(part.Text), &d.Data) == nil
	if !isJSON { // YAML has no pairs of surrogates, and no tabs between values.
		if err := sigsyaml.Unmarshal([]byte(part.Text), &d.Data); err != nil {
			return Document{}, part.syntaxError(err)
		}
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(part.Text), &document); err == nil && len(document.Content) == 1 {
		d.root = document.Content[0]
	}
	return d, nil
}

// syntaxError moves the line that the reader names, if any, from the part to the file.
func (p Part) syntaxError(err error) error {
	line, isAboutLine := 1, false
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "yaml: ")
	if found := regexp.MustCompile(`^line ([0-9]+): `).FindStringSubmatch(text); found != nil {
		text = strings.TrimPrefix(text, found[0])
		if at, err := strconv.Atoi(found[1]); err == nil {
			line, isAboutLine = at, true
		}
	}
	return &SyntaxError{Line: p.Line + line - 1, Err: errors.New(text), isAboutLine: isAboutLine}
}

// At returns the value that the path leads to, or nil.
func (d Document) At(path Path) any { return at(d.Data, path) }

// Objects returns the object of a document, or those of a list such as `kubectl get -o yaml`
// prints, with their paths.
func (d Document) Objects() iter.Seq2[Path, map[string]any] {
	return func(yield func(Path, map[string]any) bool) {
		object, isObject := d.Data.(map[string]any)
		kind, _ := object["kind"].(string)
		elements, isList := object["items"].([]any)
		isList = isList && strings.HasSuffix(kind, "List")
		if isObject && !isList {
			yield(Path{}, object)
			return
		}
		for i, element := range Objects(elements) {
			if !yield(Path{}.Field("items").Index(i), element) {
				return
			}
		}
	}
}

// HasMore reports whether the part has a document after this one, which is lost: they are not
// separated by a line of three dashes.
func (d Document) HasMore() bool {
	decoder := yaml.NewDecoder(strings.NewReader(d.part.Text))
	var first, second yaml.Node
	return decoder.Decode(&first) == nil && !errors.Is(decoder.Decode(&second), io.EOF)
}

// Line returns where in the file the deepest value stands that the path leads to. Inside a block of
// text it is the first line of that.
func (d Document) Line(path Path) int {
	node, _ := d.reach(path)
	if node == nil {
		return d.part.Line
	}
	return d.part.Line + node.Line - 1
}

// Written returns the text of the value that the path leads to, as it is in the file, or "" if that
// is neither text nor a number.
func (d Document) Written(path Path) string {
	node, whole := d.reach(path)
	if !whole || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}

// Twice returns the paths of an object's fields that are written more than once, of which all but
// the last are lost.
func (d Document) Twice(object Path) []Path {
	node, whole := d.reach(object)
	if !whole || node.Kind != yaml.MappingNode {
		return nil
	}
	var twice []Path
	seen := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		name := node.Content[i].Value
		if seen[name] {
			twice = append(twice, object.Field(name))
		}
		seen[name] = true
	}
	return twice
}

// LineOfText returns where in the file a line of the text stands that the path leads to. It is
// exact where the text is a block of lines. Line 0 is where the text begins.
func (d Document) LineOfText(text Path, line int) int {
	if node := d.literal(text); node != nil && line > 0 {
		return d.part.Line + node.Line + line - 1
	}
	return d.Line(text)
}

// LineInText returns where in the file the deepest value stands that the path leads to in a text
// that is YAML itself. It is exact where the text is a block of lines.
func (d Document) LineInText(text, path Path) int {
	var inner yaml.Node
	node := d.literal(text)
	if node == nil || yaml.Unmarshal([]byte(node.Value), &inner) != nil || len(inner.Content) != 1 {
		return d.Line(text)
	}
	deepest, _ := reach(inner.Content[0], path)
	return d.LineOfText(text, deepest.Line)
}

// literal returns the text that the path leads to if it is a block of lines, or nil.
func (d Document) literal(path Path) *yaml.Node {
	node, whole := d.reach(path)
	if whole && node.Kind == yaml.ScalarNode && node.Style&yaml.LiteralStyle != 0 {
		return node
	}
	return nil
}

func (d Document) reach(path Path) (node *yaml.Node, whole bool) {
	if d.root == nil {
		return nil, false
	}
	return reach(d.root, path)
}

// reach follows a path as far as it leads, and reports whether that was all of it.
func reach(node *yaml.Node, path Path) (deepest *yaml.Node, whole bool) {
	for _, step := range path {
		next := child(node, step)
		if next == nil {
			return node, false
		}
		node = next
	}
	return node, true
}

// child returns the value one step away, or nil.
func child(node *yaml.Node, step Step) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if step.Field == "" {
		if node.Kind != yaml.SequenceNode || step.Index >= len(node.Content) {
			return nil
		}
		return node.Content[step.Index]
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	if at, ok := fieldOf(node, step.Field); ok {
		return node.Content[at+1]
	}
	return nil
}

// PodSpec is a pod spec of a document.
type PodSpec struct {
	// Object is the innermost one around it that has a kind, such as Deployment/web.
	Object    string
	Namespace string // As in its metadata, or "".
	Path      Path
	// Data is part of the document's, and may be changed. Metadata is beside it.
	Data, Metadata map[string]any
	// Claims are the names of the volumes that its pods have besides, which a StatefulSet's
	// volumeClaimTemplates make.
	Claims []string
}

// PodSpecs returns whatever looks like a pod spec, which is what has a list of containers.
func (d Document) PodSpecs() []PodSpec {
	return slices.DeleteFunc(d.PodSpecsAndPatches(), func(s PodSpec) bool { return s.IsPatch() })
}

// PodSpecsAndPatches returns the pod specs, and what may be a part of one: a list of volumes
// without containers.
func (d Document) PodSpecsAndPatches() []PodSpec { return find(PodSpec{}, d.Data) }

// IsPatch reports whether the containers are elsewhere.
func (s PodSpec) IsPatch() bool {
	_, whole := s.Data["containers"].([]any)
	return !whole
}

func find(around PodSpec, value any) []PodSpec {
	var found []PodSpec
	switch value := value.(type) {
	case []any:
		for i, element := range value {
			at := around
			at.Path, at.Metadata = around.Path.Index(i), nil
			found = append(found, find(at, element)...)
		}
	case map[string]any:
		around = around.within(value)
		if _, ok := value["containers"].([]any); ok {
			around.Data = value
			return []PodSpec{around}
		}
		if slices.ContainsFunc(Objects(value["volumes"]), isVolume) { // A whole pod spec may be deeper.
			around.Data = value
			found = append(found, around)
		}
		for _, claim := range Objects(value["volumeClaimTemplates"]) {
			metadata, _ := claim["metadata"].(map[string]any)
			name, _ := metadata["name"].(string)
			around.Claims = append(around.Claims, name)
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := around
			at.Path, at.Data = around.Path.Field(name), nil
			at.Metadata, _ = value["metadata"].(map[string]any)
			found = append(found, find(at, value[name])...)
		}
	}
	return found
}

// isVolume reports whether an element of a list called volumes is one of a pod.
func isVolume(element map[string]any) bool {
	return slices.ContainsFunc([]string{"csi", "configMap", "secret", "projected"}, func(field string) bool {
		_, is := element[field].(map[string]any)
		return is
	})
}

// within names the object, if it is one.
func (s PodSpec) within(object map[string]any) PodSpec {
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	if kind == "" || metadata == nil {
		return s
	}
	name, _ := metadata["name"].(string)
	generated, _ := metadata["generateName"].(string)
	s.Object = kind + "/" + cmp.Or(name, generated)
	s.Namespace, _ = metadata["namespace"].(string)
	return s
}

// Volumes returns the pod spec's volumes, as far as they are objects.
func (s PodSpec) Volumes() []map[string]any { return Objects(s.Data["volumes"]) }

// Objects returns the elements of a list. An element that is not an object becomes an empty one, so
// that indexes stay true.
func Objects(value any) []map[string]any {
	list, _ := value.([]any)
	objects := make([]map[string]any, len(list))
	for i, element := range list {
		objects[i], _ = element.(map[string]any)
	}
	return objects
}

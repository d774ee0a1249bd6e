package manifest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Change is how an object of a document changes. Before and After are values of JSON. They may have
// defaults that the document does not have: what both have alike stays as it is written.
type Change struct {
	// Object is the path to it.
	Object        Path
	Before, After any
}

// Merge returns the document's text with objects changed, and the rest as it is written, comments
// included. A document that is all in braces stays KYAML, or JSON. The text is used only if isMeant
// accepts it. Otherwise Merge writes the objects again as YAML. Dropped are the comments that are
// lost.
func (d Document) Merge(
	changes []Change, isMeant func(Document) bool,
) (text string, dropped []string, err error) {
	changes = slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		return reflect.DeepEqual(c.Before, c.After)
	})
	if len(changes) == 0 {
		return d.part.Text, nil, nil
	}
	text, ok := d.merged(changes)
	if ok {
		read, err := Parse(Part{Text: text})
		ok = err == nil && isMeant(read)
	}
	if !ok {
		if text, err = d.writtenAgain(changes); err != nil {
			return "", nil, err
		}
	}
	text = d.withLineEnds(text)
	return text, d.dropped(text), nil
}

// merged changes the nodes of the document, and writes them in its form.
func (d Document) merged(changes []Change) (string, bool) {
	fresh, err := Parse(d.part)
	if err != nil || fresh.root == nil {
		return "", false
	}
	for _, c := range changes {
		object, whole := reach(fresh.root, c.Object)
		if !whole || !merge(object, c.Before, c.After) {
			return "", false
		}
	}
	text, err := encode(fresh.root)
	switch {
	case err != nil:
		return "", false
	case json.Valid([]byte(d.part.Text)):
		read, err := Parse(Part{Text: text})
		if err != nil {
			return "", false
		}
		text, err = indented(read.Data)
		return text, err == nil
	case d.isInBraces():
		return asKYAML(text)
	}
	return text, true
}

// writtenAgain writes the document with the changed objects and without comments.
func (d Document) writtenAgain(changes []Change) (string, error) {
	holder := map[string]any{}
	if err := Convert(map[string]any{"": d.Data}, &holder); err != nil {
		return "", err
	}
	for _, c := range changes {
		put(holder, append(Path{{}}, c.Object...), c.After)
	}
	text, err := sigsyaml.Marshal(holder[""])
	return string(text), err
}

// put replaces what a path leads to. The first step leads to the document.
func put(holder map[string]any, path Path, value any) {
	last := path[len(path)-1]
	if len(path) == 1 {
		holder[""] = value
		return
	}
	switch around := at(holder[""], path[1:len(path)-1]).(type) {
	case map[string]any:
		around[last.Field] = value
	case []any:
		around[last.Index] = value
	}
}

// merge makes a node what a value has become, and reports whether it could. Where the node is an
// alias, other places have it too.
func merge(node *yaml.Node, before, after any) bool {
	if reflect.DeepEqual(before, after) {
		return true
	}
	was, hadFields := before.(map[string]any)
	is, hasFields := after.(map[string]any)
	if hadFields && hasFields && node.Kind == yaml.MappingNode {
		return mergeFields(node, was, is)
	}
	old, wasList := before.([]any)
	elements, isList := after.([]any)
	if wasList && isList && node.Kind == yaml.SequenceNode && len(node.Content) == len(old) {
		return mergeElements(node, old, elements)
	}
	fresh, err := readable(after)
	if err != nil || node.Kind == yaml.AliasNode || node.Anchor != "" {
		return false
	}
	fresh.HeadComment, fresh.LineComment, fresh.FootComment = node.HeadComment, node.LineComment, node.FootComment
	*node = *fresh
	return true
}

func mergeFields(node *yaml.Node, before, after map[string]any) bool {
	for name := range before {
		if at, ok := fieldOf(node, name); ok && !has(after, name) {
			node.Content = slices.Delete(node.Content, at, at+2)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		at, ok := fieldOf(node, name)
		switch {
		case reflect.DeepEqual(before[name], after[name]) && has(before, name):
			continue
		case ok && !merge(node.Content[at+1], before[name], after[name]):
			return false
		case ok:
			continue
		}
		value, err := readable(after[name])
		if err != nil {
			return false
		}
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
	}
	return true
}

func has(object map[string]any, name string) bool {
	_, ok := object[name]
	return ok
}

// mergeElements keeps the nodes of elements that stay, and of those that change and have the same
// name.
func mergeElements(node *yaml.Node, before, after []any) bool {
	from := origins(before, after)
	content := make([]*yaml.Node, len(after))
	for i, element := range after {
		if old := from[i]; old >= 0 {
			content[i] = node.Content[old]
			if !merge(content[i], before[old], element) {
				return false
			}
			continue
		}
		fresh, err := readable(element)
		if err != nil {
			return false
		}
		content[i] = fresh
	}
	if len(node.Content) == 0 {
		node.Style &^= yaml.FlowStyle // An empty list has no other style.
	}
	node.Content = content
	return true
}

// origins returns for each element which one it was before, or -1. Equal ones come first: a list of
// mounts may have a name twice.
func origins(before, after []any) []int {
	from := slices.Repeat([]int{-1}, len(after))
	for _, isSame := range []func(a, b any) bool{reflect.DeepEqual, haveSameName} {
		for i, element := range after {
			if from[i] >= 0 {
				continue
			}
			from[i] = slices.IndexFunc(before, func(old any) bool { return isSame(old, element) })
			if slices.Contains(from[:i], from[i]) || slices.Contains(from[i+1:], from[i]) {
				from[i] = -1 // It is another's already.
			}
		}
	}
	return from
}

func haveSameName(a, b any) bool {
	was, _ := a.(map[string]any)
	is, _ := b.(map[string]any)
	return was["name"] != nil && was["name"] == is["name"]
}

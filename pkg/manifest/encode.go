package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readable returns a value as people write it: names and keys come first, and modes are octal.
func readable(value any) (*yaml.Node, error) {
	node := &yaml.Node{}
	if err := node.Encode(value); err != nil {
		return nil, err
	}
	arrange(node)
	return node, nil
}

func arrange(node *yaml.Node) {
	for _, below := range node.Content {
		arrange(below)
	}
	if node.Kind != yaml.MappingNode {
		return
	}
	var first, rest []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if mode, err := strconv.Atoi(value.Value); err == nil && value.Tag == "!!int" &&
			(key.Value == "mode" || key.Value == "defaultMode") {
			value.Value = fmt.Sprintf("%04o", mode)
		}
		if slices.Contains([]string{"name", "secretName", "key"}, key.Value) {
			first = append(first, key, value)
			continue
		}
		rest = append(rest, key, value)
	}
	node.Content = slices.Concat(first, rest)
}

// Convert writes a value as JSON and reads it as another, as the API server would.
func Convert(from, to any) error {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	return err
}

func encode(value any) (string, error) {
	var b strings.Builder
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	err := encoder.Close()
	return b.String(), err
}

package manifest

import (
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml/kyaml"
)

// isInBraces reports whether the document is an object in braces, as JSON and KYAML are.
func (d Document) isInBraces() bool {
	return d.root != nil && d.root.Kind == yaml.MappingNode && d.root.Style&yaml.FlowStyle != 0
}

// asKYAML writes a document as `kubectl get -o kyaml` does. The separator before it is another part
// of the file.
func asKYAML(text string) (string, bool) {
	var b strings.Builder
	if err := (&kyaml.Encoder{}).FromYAML(strings.NewReader(text), &b); err != nil {
		return "", false
	}
	return strings.TrimPrefix(b.String(), "---\n"), true
}

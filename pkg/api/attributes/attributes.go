// Package attributes writes what [api.Parse] reads: the attributes of a volume with given sources,
// as a person would write them. It is pure.
//
// It does not know volumes, pods or manifests, nor which attributes are right: [api.Parse] alone
// does.
package attributes

import (
	"fmt"
	"io/fs"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Of returns the attributes that name the sources: in the short form where one source can be
// written so. A source whose ref has no namespace is of the pod's own.
func Of(sources []api.Source) (map[string]string, error) {
	if len(sources) != 1 || sources[0].As != nil {
		return Long(sources)
	}
	return Short(sources[0])
}

// Short returns the attributes of one source, which must have no [api.Source.As].
func Short(src api.Source) (map[string]string, error) {
	all := map[string]string{KeyOf(src.Ref.Kind): src.Ref.Name}
	if src.Ref.Namespace != "" {
		all[api.KeyNamespace] = src.Ref.Namespace
	}
	if src.Optional {
		all[api.KeyOptional] = "true"
	}
	if len(src.Items) == 0 {
		return all, nil
	}
	text, err := lines(writtenItems(src.Items))
	all[api.KeyItems] = text
	return all, err
}

// Long returns the attribute that lists the sources.
func Long(sources []api.Source) (map[string]string, error) {
	text, err := Sources(sources)
	return map[string]string{api.KeySources: text}, err
}

// MountPoints returns the text of the attribute that lists mount points.
func MountPoints(always, ifAbsent []string) (string, error) {
	list := make([]any, 0, len(always)+len(ifAbsent))
	for _, point := range always {
		list = append(list, point)
	}
	for _, point := range ifAbsent {
		list = append(list, writtenPoint{Path: point, IfAbsent: true})
	}
	var node yaml.Node
	if err := node.Encode(list); err != nil {
		return "", fmt.Errorf("write the mount points: %w", err)
	}
	node.Style = yaml.FlowStyle
	text, err := yaml.Marshal(&node)
	if err != nil {
		return "", fmt.Errorf("write the mount points: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// writtenPoint is a mount point that may have a file.
type writtenPoint struct {
	Path     string `yaml:"path"`
	IfAbsent bool   `yaml:"ifAbsent"`
}

// Sources returns the text of the attribute that lists the sources.
func Sources(sources []api.Source) (string, error) {
	list := make([]map[string]writtenSource, len(sources))
	for i, src := range sources {
		list[i] = map[string]writtenSource{KeyOf(src.Ref.Kind): {
			Name: src.Ref.Name, Namespace: src.Ref.Namespace, Items: writtenItems(src.Items),
			Optional: src.Optional, As: asWritten(src.As),
		}}
	}
	return lines(list)
}

// KeyOf returns what objects of a kind are named by: an attribute in the short form, a field in the
// long one.
func KeyOf(kind api.Kind) string {
	if kind == api.Secret {
		return api.KeySecret
	}
	return api.KeyConfigMap
}

// Mode formats a mode for an attribute, such as 0440.
func Mode[M ~int32 | ~uint32](mode M) string { return fmt.Sprintf("%04o", mode) }

// writtenSource is a source as the long form has it, under configMap or secret.
type writtenSource struct {
	Name      string        `yaml:"name"`
	Namespace string        `yaml:"namespace,omitempty"`
	Items     []writtenItem `yaml:"items,omitempty"`
	Optional  bool          `yaml:"optional,omitempty"`
	As        *writtenAs    `yaml:"as,omitempty"`
}

type writtenItem struct {
	Key  string       `yaml:"key"`
	Path string       `yaml:"path"`
	Mode *writtenMode `yaml:"mode,omitempty"`
	User *int         `yaml:"user,omitempty"`
}

type writtenAs struct {
	Path   string       `yaml:"path"`
	Format api.Format   `yaml:"format"`
	Mode   *writtenMode `yaml:"mode,omitempty"`
}

// writtenMode is a mode as people write it: in octal.
type writtenMode fs.FileMode

// MarshalYAML returns a number.
func (m writtenMode) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: Mode(fs.FileMode(m))}, nil
}

func writtenItems(items []api.Item) []writtenItem {
	written := make([]writtenItem, len(items))
	for i, item := range items {
		written[i] = writtenItem{Key: item.Key, Path: item.Path, Mode: (*writtenMode)(item.Mode), User: item.User}
	}
	return written
}

func asWritten(as *api.As) *writtenAs {
	if as == nil {
		return nil
	}
	return &writtenAs{Path: as.Path, Format: as.Format, Mode: (*writtenMode)(as.Mode)}
}

// lines writes a list as the project's documents do: one element on a line, in braces but for what
// is outermost in the long form. A list of one item is one line in brackets.
func lines(list any) (string, error) {
	var node yaml.Node
	if err := node.Encode(list); err != nil {
		return "", fmt.Errorf("write the list: %w", err)
	}
	_, isItems := list.([]writtenItem)
	switch {
	case len(node.Content) == 0, isItems && len(node.Content) == 1:
		node.Style = yaml.FlowStyle
	case isItems:
		flow(node.Content)
	default:
		for _, entry := range node.Content {
			flow(entry.Content)
		}
	}
	text, err := yaml.Marshal(&node)
	if err != nil {
		return "", fmt.Errorf("write the list: %w", err)
	}
	if node.Style == yaml.FlowStyle {
		return strings.TrimSpace(string(text)), nil
	}
	return string(text), nil
}

// flow has collections written on one line each.
func flow(nodes []*yaml.Node) {
	for _, node := range nodes {
		if node.Kind == yaml.MappingNode {
			node.Style = yaml.FlowStyle
		}
	}
}

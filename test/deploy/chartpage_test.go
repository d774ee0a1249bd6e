package deploy

import (
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"

	"github.com/liveconfig-csi/liveconfig/docs"
)

// TestPageOfValues compares the table of deploy/chart/README.md with values.yaml.
func TestPageOfValues(t *testing.T) {
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, inRepo(t, "deploy", "chart", "values.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	docs.Table{
		Page: "../deploy/chart/README.md", Name: "the values", Columns: []string{"value", "meaning", "default"},
		Rows: valueRows(t, "", file.Content[0]),
	}.Compare(t)
}

// valueRows returns a row for each value. An object with a comment gets one row, and further rows only if its values have
// comments too.
func valueRows(t *testing.T, at string, object *yaml.Node) [][]string {
	t.Helper()
	var rows [][]string
	for i := 0; i < len(object.Content); i += 2 {
		key, value := object.Content[i], object.Content[i+1]
		name := at + key.Value
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && key.HeadComment == "" {
			rows = append(rows, valueRows(t, name+".", value)...)
			continue
		}
		rows = append(rows, []string{"`" + name + "`", meaning(key), "`" + inline(t, value) + "`"})
		if value.Kind == yaml.MappingNode && strings.Contains(comments(value), "#") {
			rows = append(rows, valueRows(t, name+".", value)...)
		}
	}
	return rows
}

func meaning(key *yaml.Node) string {
	paragraphs := strings.Split(key.HeadComment, "\n\n") // The first of the file is about all values.
	return strings.ReplaceAll(strings.ReplaceAll(paragraphs[len(paragraphs)-1], "\n#", ""), "# ", "")
}

// comments returns the comments of what is directly in an object.
func comments(object *yaml.Node) string {
	var all strings.Builder
	for _, node := range object.Content {
		all.WriteString(node.HeadComment)
	}
	return all.String()
}

// inline writes a value in one line.
func inline(t *testing.T, value *yaml.Node) string {
	t.Helper()
	bare := *value
	bare.Style = yaml.FlowStyle
	bare.HeadComment = ""
	text, err := yaml.Marshal(stripped(&bare))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// stripped returns a node without its comments.
func stripped(node *yaml.Node) *yaml.Node {
	bare := *node
	bare.HeadComment, bare.LineComment, bare.FootComment, bare.Content = "", "", "", nil
	for _, child := range node.Content {
		bare.Content = append(bare.Content, stripped(child))
	}
	return &bare
}

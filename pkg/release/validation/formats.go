package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/BurntSushi/toml"
	"github.com/magiconair/properties"
	"go.yaml.in/yaml/v3"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// syntaxError is why a text does not have its format.
type syntaxError struct {
	line int // From 1; 0 if it is not known.
	err  error
}

func (e *syntaxError) Error() string { return e.err.Error() }

// document is one document of a text, as JSON has values: objects have names of type string, and
// numbers are json.Number.
type document struct {
	value any
	// For finding lines. Both are nil where the format is neither YAML nor JSON.
	node *yaml.Node
	json []byte
}

// parse returns the documents of a text. Only YAML has several. Errors are of type *syntaxError.
func parse(format settings.Format, text []byte) ([]document, error) {
	text = withoutMark(text)
	switch format {
	case settings.JSON:
		return parseJSON(text)
	case settings.TOML:
		return parseTOML(text)
	case settings.Properties:
		return parseProperties(text)
	case settings.INI:
		return parseINI(text)
	case settings.YAML:
	}
	return parseYAML(text)
}

// withoutMark returns a text without the byte-order mark that some editors write in front of UTF-8.
func withoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

func parseJSON(text []byte) ([]document, error) {
	value, err := decodeJSON(text)
	if err != nil {
		return nil, err
	}
	return []document{{value: value, json: text}}, nil
}

func decodeJSON(text []byte) (value any, err error) {
	if err := nestingOfJSON(text); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		offset := decoder.InputOffset()
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = e.Offset
		}
		return nil, &syntaxError{line: 1 + bytes.Count(text[:min(int(offset), len(text))], []byte("\n")), err: err}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		line := 1 + bytes.Count(text[:decoder.InputOffset()], []byte("\n"))
		return nil, &syntaxError{line: line, err: errors.New("there is more after the value")}
	}
	return value, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n\s+)?line (\d+): `)

func yamlError(err error) error {
	e := &syntaxError{err: err}
	if found := yamlLine.FindStringSubmatch(err.Error()); found != nil {
		e.line, _ = strconv.Atoi(found[1])
		e.err = errors.New(err.Error()[len(found[0]):])
	}
	return e
}

func parseYAML(text []byte) ([]document, error) {
	var documents []document
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		var value any
		if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, yamlError(err)
		}
		if err := nestingOfYAML(&node); err != nil {
			return nil, err
		}
		if err := node.Decode(&value); err != nil { // It refuses keys that are given twice.
			return nil, yamlError(err)
		}
		d := document{value: asJSON(value)}
		if len(node.Content) > 0 {
			d.node = node.Content[0]
		}
		documents = append(documents, d)
	}
	if len(documents) == 0 {
		documents = []document{{}}
	}
	return documents, nil
}

func parseTOML(text []byte) ([]document, error) {
	if err := nestingOfTOML(text); err != nil {
		return nil, err
	}
	var value map[string]any
	if _, err := toml.Decode(string(text), &value); err != nil {
		if e, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, &syntaxError{line: e.Position.Line, err: errors.New(e.Message)}
		}
		return nil, &syntaxError{err: err}
	}
	return []document{{value: asJSON(value)}}, nil
}

func parseProperties(text []byte) ([]document, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return nil, &syntaxError{err: err}
	}
	value := map[string]any{}
	for name, v := range p.Map() {
		value[name] = v
	}
	return []document{{value: value}}, nil
}

// asJSON returns a value of YAML or TOML as JSON has it.
func asJSON(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = asJSON(member)
		}
		return v
	case map[any]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			object[fmt.Sprint(name)] = asJSON(member)
		}
		return object
	case []any:
		for i, element := range v {
			v[i] = asJSON(element)
		}
		return v
	case []map[string]any: // TOML's arrays of tables.
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = asJSON(element)
		}
		return list
	case nil, bool, string:
		return v
	}
	return asNumber(value)
}

// asNumber returns a number, and another value as a text: JSON has no times, and no infinity.
func asNumber(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if text[0] == '"' {
		return string(text[1 : len(text)-1])
	}
	return json.Number(text)
}

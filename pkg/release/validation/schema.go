package validation

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// schema checks documents by the JSON Schema in another value.
func (k *checker) schema(documents []document) {
	text, found := k.get(k.rule.SchemaKey)
	if !found {
		return
	}
	schema, err := compile(text)
	if err != nil {
		line := 0
		if e, ok := errors.AsType[*syntaxError](err); ok {
			line = e.line
		}
		k.problem(k.rule.SchemaKey, line, "is not a JSON Schema%s", k.detail(err))
		return
	}
	for _, d := range documents {
		if e, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(d.value)); ok {
			k.schemaProblems(d, innermost(e, nil))
		}
	}
}

// schemaURL names the schema in its own references.
const schemaURL = "release:///schema.json"

// compile compiles a schema, which is of draft 2020-12 if it does not name another one. It may
// refer to nothing but itself and the drafts.
func compile(text []byte) (*jsonschema.Schema, error) {
	value, err := decodeJSON(withoutMark(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat() // Draft 2020-12 would take any text.
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, value); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// noLoader loads nothing: a schema must not make the controller ask other servers.
type noLoader struct{}

// Load implements [jsonschema.URLLoader].
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema can refer to its own parts only", url)
}

// innermost adds the innermost causes of an error: those name the value that is wrong.
func innermost(e *jsonschema.ValidationError, found []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 && len(found) < mostFound {
		return append(found, e)
	}
	for _, cause := range e.Causes {
		if len(found) < mostFound {
			found = innermost(cause, found)
		}
	}
	return found
}

// schemaProblems notes errors.
func (k *checker) schemaProblems(d document, found []*jsonschema.ValidationError) {
	paths := make([][]string, len(found))
	for i, e := range found {
		paths[i] = e.InstanceLocation
	}
	for i, line := range d.linesOf(paths) {
		k.schemaProblem(line, found[i])
	}
}

func (k *checker) schemaProblem(line int, e *jsonschema.ValidationError) {
	keyword := e.ErrorKind.KeywordPath()
	if k.content.IsSecret {
		k.problem(k.rule.Key, line, "does not match the schema in %s (%s)", k.rule.SchemaKey,
			strings.Join(keyword[:min(1, len(keyword))], ""))
		return
	}
	at := "the whole"
	if len(e.InstanceLocation) > 0 {
		at = strings.Join(e.InstanceLocation, ".")
	}
	k.problem(k.rule.Key, line, "%s: %s", at, e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
}

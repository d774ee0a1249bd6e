package manifestsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest/objects"
)

// defaultNamespace is that of a manifest that names none.
const defaultNamespace = "default"

// Place is where a manifest stands, or a mistake in it.
type Place struct {
	// File is a name in the directory.
	File string
	// Document and Line count from one; zero means that they are not known.
	Document, Line int
}

// String returns «web.yaml, document 2, line 14».
func (p Place) String() string {
	text := p.File
	if p.Document > 0 {
		text += fmt.Sprintf(", document %d", p.Document)
	}
	if p.Line > 0 {
		text += fmt.Sprintf(", line %d", p.Line)
	}
	return text
}

// Problem is why a manifest is not served. It has no value of the manifest.
type Problem struct {
	Place   Place
	Message string
}

// Error returns the place and the message.
func (p *Problem) Error() string { return p.Place.String() + ": " + p.Message }

// defined is an object that a file defines.
type defined struct {
	place   Place
	content api.Content
}

// isManifest reports whether a file has a name that kubectl takes for a manifest's.
func isManifest(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") || strings.HasSuffix(name, ".json")
}

// parseFile returns the ConfigMaps and Secrets of a file, or every mistake in it. Other kinds are
// passed over.
func parseFile(name string, text []byte) ([]defined, []*Problem) {
	p := &parser{place: Place{File: name}}
	for _, part := range partsOf(name, string(text)) {
		if !part.IsSeparator {
			p.part(part)
		}
	}
	return p.objects, p.problems
}

// partsOf splits a file into its documents. JSON can have one after the other, as far as it is
// JSON.
func partsOf(name, text string) []manifest.Part {
	if !strings.HasSuffix(name, ".json") {
		return manifest.File{Name: name, Text: text}.Parts()
	}
	var parts []manifest.Part
	decoder, done := json.NewDecoder(strings.NewReader(text)), 0
	for {
		var one json.RawMessage
		if decoder.Decode(&one) != nil {
			break
		}
		end := int(decoder.InputOffset())
		start := end - len(one)
		parts = append(parts, manifest.Part{Text: text[start:end], Line: 1 + strings.Count(text[:start], "\n")})
		done = end
	}
	if rest := strings.TrimLeft(text[done:], " \t\r\n"); rest != "" {
		parts = append(parts, manifest.Part{Text: rest, Line: 1 + strings.Count(text[:len(text)-len(rest)], "\n")})
	}
	return parts
}

// parser reads one file.
type parser struct {
	place    Place // Of the document that is being read.
	objects  []defined
	problems []*Problem
}

func (p *parser) problem(line int, message string) {
	at := p.place
	at.Line = line
	p.problems = append(p.problems, &Problem{Place: at, Message: message})
}

func (p *parser) part(part manifest.Part) {
	document, err := manifest.Parse(part)
	if err == nil && document.Data == nil {
		return // Nothing but comments.
	}
	p.place.Document++
	if line, message, ok := p.badJSON(part); ok {
		p.problem(line, message)
		return
	}
	if document.HasMore() {
		p.problem(part.Line, "there is more than one document: separate documents by lines of three dashes and nothing else")
		return
	}
	if syntax, ok := errors.AsType[*manifest.SyntaxError](err); ok {
		p.problem(syntax.Line, syntax.Reason())
		return
	}
	for at, object := range objects.All(document.Data) {
		p.object(document, at, object)
	}
}

// badJSON reports what is wrong with the JSON of a file of JSON, of which YAML would make something
// all the same.
func (p *parser) badJSON(part manifest.Part) (line int, message string, isBad bool) {
	if !strings.HasSuffix(p.place.File, ".json") {
		return 0, "", false
	}
	var data any
	syntax, isBad := errors.AsType[*json.SyntaxError](json.Unmarshal([]byte(part.Text), &data))
	if !isBad {
		return 0, "", false
	}
	before := part.Text[:min(int(syntax.Offset), len(part.Text))]
	return part.Line + strings.Count(before, "\n"), "it is not JSON; what cannot be read begins or ends on this line", true
}

// object reads the object at a path.
func (p *parser) object(document manifest.Document, at manifest.Path, object map[string]any) {
	switch kind, _ := object["kind"].(string); {
	case object == nil:
		p.problem(document.Line(at), "must be an object, with apiVersion and kind")
		return
	case kind == "" && object["apiVersion"] == nil:
		return // Of a tool, such as kustomization.yaml.
	case kind == "":
		p.problem(document.Line(at), "kind is missing: write kind: ConfigMap or kind: Secret")
		return
	case !objects.IsServed(object):
		return
	}
	content, mistakes := objects.Content(object, defaultNamespace)
	mistakes = append(mistakes, twice(document, at)...)
	for _, m := range mistakes {
		p.problem(document.Line(append(at.Field(), m.Path...)), m.Text)
	}
	place := p.place
	place.Line = document.Line(at)
	p.objects = append(p.objects, defined{place: place, content: content})
}

// twice returns the fields of an object that are written more than once. A parser takes the last
// and drops the others silently.
func twice(document manifest.Document, object manifest.Path) []objects.Mistake {
	var found []objects.Mistake
	holders := []manifest.Path{object}
	for _, name := range []string{"metadata", "data", "binaryData", "stringData"} {
		holders = append(holders, object.Field(name))
	}
	for _, holder := range holders {
		for _, path := range document.Twice(holder) {
			found = append(found, objects.Mistake{Path: path[len(object):], Text: "a field is written more than once: keep one"})
		}
	}
	return found
}

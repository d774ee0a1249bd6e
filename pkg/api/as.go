package api

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fieldAs is the field of a source that makes one file of all its keys. Only the long form has it.
const fieldAs = "as"

// Examples of what as, and items beside it, are made of, for messages.
const (
	exampleAs      = "{path: app.env, format: dotenv}"
	exampleEntries = "[{key: color}, {key: log.level, path: LOG_LEVEL}]"
	exampleNamed   = "{key: log.level, path: LOG_LEVEL}"
)

// maxName is how many bytes a name in a file may have: as many as a key of an object.
const maxName = 253

// as reads what makes one file of all keys of a source.
func (p *parser) as(at *field.Path, value any) *As {
	as := &As{}
	p.object(at, value, schema{
		example: exampleAs,
		fields: []property{
			{
				name: "path", required: "write where in the volume the file goes",
				read: func(at *field.Path, v any) { as.Path = p.path(at, v) },
			},
			{
				name: "format", required: "write " + formatNames() + suggestion(value),
				read: func(at *field.Path, v any) { as.Format = p.format(at, v) },
			},
			{name: "mode", read: func(at *field.Path, v any) { as.Mode = p.mode(at, v) }},
		},
		elsewhere: notInAs,
	})
	return as
}

func notInAs(name string) string {
	switch name {
	case "name", KeyNamespace, KeyItems, KeyOptional:
		return "goes beside as, not into it"
	default:
		return notInSource(name)
	}
}

// formatNames lists the formats for a message: «a, b or c».
func formatNames() string {
	names := texts(Formats())
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// suggestion names the format that the path of an as without one looks like. The user must write
// it: anyone who reads the file has to know it as well.
func suggestion(value any) string {
	file, _ := memberOf(value, "path").(string)
	formats := map[string]Format{
		".env": FormatDotenv, ".json": FormatJSON, ".yaml": FormatYAML, ".yml": FormatYAML, ".properties": FormatProperties,
	}
	format, found := formats[strings.ToLower(path.Ext(file))]
	if !found {
		return ""
	}
	return ", the path looks like " + string(format)
}

// format returns the format that is named, or "" after a mistake.
func (p *parser) format(at *field.Path, value any) Format {
	text, ok := p.text(at, value)
	if !ok {
		return ""
	}
	if !slices.Contains(Formats(), Format(text)) {
		p.unsupported(at, text, texts(Formats())...)
	}
	return Format(text)
}

// formatIn reports whether a source has as, and returns its format, or "" if that is missing.
func formatIn(source any) (format Format, found bool) {
	as := memberOf(source, fieldAs)
	text, _ := memberOf(as, "format").(string)
	return Format(text), as != nil
}

// memberOf returns the value of the first field of that name, or nil.
func memberOf(object any, name string) any {
	members, _ := membersOf(object)
	for _, member := range members {
		if member.Key == name {
			return member.Value
		}
	}
	return nil
}

// membersOf returns the fields of an object, and whether it is one.
func membersOf(object any) (yaml.MapSlice, bool) {
	members, ok := object.(yaml.MapSlice)
	return members, ok
}

// entries reads the items of a source with as. Each selects a key, and its path is the name that
// the key has in the file, by default the key itself.
func (p *parser) entries(at *field.Path, value any, format Format) []Item {
	var items []Item
	names := map[string]*field.Path{}
	for i, element := range p.counted(at, p.list(at, value, exampleEntries), &p.itemCount, maxItems) {
		item, at := p.namedItem(at.Index(i), element, format)
		items = append(items, item)
		switch first := names[item.Path]; {
		case item.Path == "": // A mistake.
		case first != nil:
			p.duplicate(at, item.Path, first.String()+" makes the same name in the file, change one")
		default:
			names[item.Path] = at
		}
	}
	return items
}

// namedItem reads an item that gives a key a name in a file, and returns also where the name is
// written. Without a name there was a mistake.
func (p *parser) namedItem(at *field.Path, value any, format Format) (Item, *field.Path) {
	var item Item
	isNamed := false
	p.object(at, value, schema{
		example: exampleNamed,
		fields: []property{
			{
				name: "key", required: "write which key to put into the file",
				read: func(at *field.Path, v any) { item.Key = p.key(at, v) },
			},
			{name: "path", read: func(at *field.Path, v any) { item.Path, isNamed = p.entryName(at, v, format), true }},
		},
		elsewhere: notInEntryOfFile,
	})
	if isNamed {
		return item, at.Child("path")
	}
	at = at.Child("key")
	if problem := nameProblem(item.Key, format); item.Key != "" && problem != "" {
		p.invalid(at, item.Key, problem+"; write as path which name the key has in the file")
		return item, at
	}
	item.Path = item.Key
	return item, at
}

func notInEntryOfFile(name string) string {
	switch name {
	case "mode":
		return "there is one file for all keys, write its mode inside as"
	case "user":
		return "there is one file for all keys, whose owner is the volume's uid"
	default:
		return ""
	}
}

// entryName returns the name that an item gives a key, or "" after a mistake.
func (p *parser) entryName(at *field.Path, value any, format Format) string {
	name, ok := p.text(at, value)
	switch {
	case !ok:
		return ""
	case name == "":
		p.required(at, "must not be empty, write the name in the file, or leave it out for the key's own")
		return ""
	}
	if problem := nameProblem(name, format); problem != "" {
		p.invalid(at, name, problem)
		return ""
	}
	return name
}

// nameProblem returns what is wrong with a name in a file, or "".
func nameProblem(name string, format Format) string {
	switch {
	case !format.Takes(name):
		return `must be a variable's name in dotenv: letters, digits and "_", no digit first`
	case strings.Contains(name, "/"):
		return "must not contain a slash: beside as it is a name in the file, and not a path"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "must not contain control characters"
	case len(name) > maxName:
		return "must have at most 253 bytes"
	default:
		return ""
	}
}

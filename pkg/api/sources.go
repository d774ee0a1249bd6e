package api

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Examples of what the long form and items are made of, for messages.
const (
	exampleSources = "[{configMap: {name: app}}, {secret: {name: tls}}]"
	exampleEntry   = "{configMap: {name: app}}"
	exampleSource  = "{name: app}"
	exampleItems   = "[{key: app.conf, path: etc/app.conf}]"
	exampleItem    = "{key: app.conf, path: etc/app.conf}"
)

// sources reads the list of the long form. Its schema is that of projected.sources in core/v1 plus
// namespace and as.
func (p *parser) sources(at *field.Path, text string) []Source {
	value, ok := p.yaml(at, text)
	switch {
	case !ok:
		return nil
	case value == nil:
		p.required(at, "must be a list such as "+exampleSources+", or [] for an empty volume")
		return nil
	}
	var found []Source
	for i, entry := range p.counted(at, p.list(at, value, exampleSources), new(int), maxSources) {
		if src, ok := p.entry(at.Index(i), entry); ok {
			found = append(found, src)
		}
	}
	return found
}

// entry reads one element of the list and reports whether it names a source. One that names none is
// allowed and means nothing, as in core/v1.
func (p *parser) entry(at *field.Path, value any) (Source, bool) {
	var src Source
	read := func(at *field.Path, kind Kind, value any) {
		if src.Ref.Kind != "" {
			p.forbidden(at, "the entry already names another source, write a separate entry for this one")
		}
		src = p.source(at, kind, value)
	}
	p.object(at, value, schema{
		example: exampleEntry,
		fields: []property{
			{name: KeyConfigMap, read: func(at *field.Path, v any) { read(at, ConfigMap, v) }},
			{name: KeySecret, read: func(at *field.Path, v any) { read(at, Secret, v) }},
		},
		elsewhere: notInEntry,
	})
	return src, src.Ref.Kind != ""
}

func notInEntry(name string) string {
	switch name {
	case "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate":
		return "not served by this driver, use a `projected` volume for it"
	case "name", KeyNamespace, KeyItems, KeyOptional, fieldAs, fieldExpand:
		return "goes inside configMap or secret"
	default:
		return notInSource(name)
	}
}

func notInSource(name string) string {
	switch name {
	case KeyDefaultMode, KeyUID, KeyGID, KeyDefaultUser, KeyUpdatePolicy, KeyMountPoints, KeyOnDelete, KeyValues:
		return "belongs to the whole volume, make it an attribute beside sources"
	default:
		return ""
	}
}

// source reads what configMap or secret of an entry holds.
func (p *parser) source(at *field.Path, kind Kind, value any) Source {
	if selects(value) {
		return p.selection(at, kind, value)
	}
	src := Source{Ref: Ref{Kind: kind}}
	var namespace *string
	readItems := p.items
	// The paths of items depend on it, also when it comes after them.
	p.paths.optional = memberOf(value, KeyOptional) == true
	if format, found := formatIn(value); found { // It decides what items mean, also when it comes after them.
		readItems = func(at *field.Path, v any) []Item { return p.entries(at, v, format) }
	}
	p.object(at, value, schema{
		example: exampleSource,
		fields: []property{
			{
				name: "name", required: "write the name of the " + string(kind),
				read: func(at *field.Path, v any) { src.Ref.Name = p.nameOf(at, v) },
			},
			{name: KeyNamespace, read: func(at *field.Path, v any) { namespace = p.namespaceOf(at, v) }},
			{name: KeyItems, read: func(at *field.Path, v any) { src.Items = readItems(at, v) }},
			{name: KeyOptional, read: func(at *field.Path, v any) { src.Optional = p.boolean(at, v) }},
			{name: fieldAs, read: func(at *field.Path, v any) { src.As = p.as(at, v) }},
			{name: fieldExpand, read: func(at *field.Path, v any) { src.Expand = p.expand(at, v) }},
		},
		elsewhere: notInNamed,
	})
	if src.As != nil && src.Expand != nil {
		p.forbidden(at.Child(fieldExpand), "cannot stand beside as, which writes the values by itself")
	}
	src.Ref.Namespace = p.namespaceOr(at.Child(KeyNamespace), namespace)
	return src
}

// items reads a list of core/v1 KeyToPath.
func (p *parser) items(at *field.Path, value any) []Item {
	elements := p.counted(at, p.list(at, value, exampleItems), &p.itemCount, maxItems)
	if len(elements) == 0 {
		return nil
	}
	p.paths.expect(len(elements))
	items := make([]Item, len(elements))
	var item *Item
	itemSchema := schema{ // For all of them: there may be thousands.
		example: exampleItem,
		fields: []property{
			{
				name: "key", required: "write which key to project",
				read: func(at *field.Path, v any) { item.Key = p.key(at, v) },
			},
			{
				name: "path", required: "write where in the volume the file goes",
				read: func(at *field.Path, v any) { item.Path = p.path(at, v) },
			},
			{name: "mode", read: func(at *field.Path, v any) { item.Mode = p.mode(at, v) }},
			{name: "user", read: func(at *field.Path, v any) { item.User = p.userID(at, v) }},
			{name: fieldExpand, read: func(at *field.Path, v any) { item.Expand = p.expand(at, v) }},
		},
		elsewhere: nowhere,
	}
	for i, element := range elements {
		item = &items[i]
		p.object(at.Index(i), element, itemSchema)
	}
	return items
}

// nowhere is for schemas whose unknown fields mean nothing in any other place either.
func nowhere(string) string { return "" }

// key returns the key of an item. As in core/v1 it need not be one that can exist: the object
// decides.
func (p *parser) key(at *field.Path, value any) string {
	key, ok := p.text(at, value)
	if ok && key == "" {
		p.required(at, "must not be empty, write which key to project")
	}
	return key
}

func (p *parser) nameOf(at *field.Path, value any) string {
	name, ok := p.text(at, value)
	if !ok {
		return ""
	}
	return p.name(at, name)
}

// name returns the name of an object, checked.
func (p *parser) name(at *field.Path, name string) string {
	switch {
	case name == "":
		p.required(at, "must not be empty, write the name of the object")
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		p.invalid(at, name, `must be an object name: up to 253 of a-z, 0-9, "-" and ".", first and last a letter or digit`)
	}
	return name
}

// namespaceOf returns the namespace given for a source, checked and never nil.
func (p *parser) namespaceOf(at *field.Path, value any) *string {
	namespace, ok := p.text(at, value)
	if ok && len(validation.IsDNS1123Label(namespace)) > 0 {
		p.invalid(at, namespace, `must be a namespace: up to 63 of a-z, 0-9 and "-", first and last a letter or digit, `+
			"or leave it out for the pod's own")
	}
	return &namespace
}

// namespaceOr returns the namespace given for a source, or the pod's if none is.
func (p *parser) namespaceOr(at *field.Path, given *string) string {
	if given != nil {
		return *given
	}
	if p.namespace == "" {
		p.required(at, "the pod's namespace is not known, write which one to use")
	}
	return p.namespace
}

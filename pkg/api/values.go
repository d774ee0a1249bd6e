package api

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// KeyValues is the attribute that lists the values for files of sources with [Source.Expand]. It
// stands beside [KeySources].
const KeyValues = "values"

const (
	fieldExpand   = "expand"
	fieldPrefix   = "prefix"
	fieldPod      = "pod"
	exampleValues = "[{secret: {name: db, prefix: DB_}}]"
	exampleValue  = "{secret: {name: db, prefix: DB_}}"
	exampleExpand = "{quote: json}"
	examplePod    = "{name: POD}"
)

// Expand has values put into files, at the places that name them.
type Expand struct {
	Syntax Syntax
	// Quote is how a value is quoted where the place does not name a quoting.
	Quote Quote
}

// Syntax is how a text names values.
type Syntax string

// The syntaxes.
const (
	// SyntaxParentheses is $(NAME), as in the environment variables of containers. It is the
	// default.
	SyntaxParentheses Syntax = "$()"
	// SyntaxBraces is ${NAME}, as envsubst has it.
	SyntaxBraces Syntax = "${}"
)

// Quote is how a value is written into a file, so that it cannot end or extend the place.
type Quote string

// The quotings.
const (
	// QuoteNone has the value as it is. It is the default.
	QuoteNone Quote = "none"
	// QuoteJSON is a string of JSON, with its quotes.
	QuoteJSON Quote = "json"
	// QuoteYAML is a string of YAML 1.1 and 1.2, with its quotes.
	QuoteYAML Quote = "yaml"
	// QuoteShell is a word of a POSIX shell, in single quotes.
	QuoteShell Quote = "sh"
	// QuoteURL has a percent sign and two digits for each byte that may mean something in a URL.
	QuoteURL Quote = "url"
	// QuoteBase64 is base64 with padding.
	QuoteBase64 Quote = "base64"
	// QuoteProperties is a value of Java's properties.
	QuoteProperties Quote = "properties"
)

func quotes() []Quote {
	return []Quote{QuoteNone, QuoteJSON, QuoteYAML, QuoteShell, QuoteURL, QuoteBase64, QuoteProperties}
}

// Quotes names every quoting.
func Quotes() string { return strings.Join(texts(quotes()), ", ") }

// IsKnown reports whether there is such a quoting.
func (q Quote) IsKnown() bool { return slices.Contains(quotes(), q) }

// Value is what one entry of values gives: keys of an object, or facts about the pod.
type Value struct {
	// Source has the object. Its items have names in place of paths. A fact has the zero Source.
	Source Source
	// Prefix comes before the names of all keys.
	Prefix string
	// Facts are names by what the pod has: see [Facts]. Texts are the facts themselves, from
	// [Spec.WithFacts].
	Facts map[string]string
	Texts map[string]string
}

// The facts about a pod.
const (
	FactName           = "name"
	FactNamespace      = "namespace"
	FactUID            = "uid"
	FactServiceAccount = "serviceAccountName"
	FactNodeName       = "nodeName"
)

func facts() []string {
	return []string{FactName, FactNamespace, FactUID, FactServiceAccount, FactNodeName}
}

// WithFacts returns the spec with what the kubelet vouches for of a pod on a node. A spec whose
// values have no facts stays as it is.
func (s Spec) WithFacts(pod Pod, node string) Spec {
	hasFacts := func(v Value) bool { return len(v.Facts) > 0 }
	if !slices.ContainsFunc(s.Values, hasFacts) {
		return s
	}
	known := map[string]string{
		FactName: pod.Name, FactNamespace: pod.Namespace, FactUID: pod.UID, FactServiceAccount: pod.ServiceAccount,
		FactNodeName: node,
	}
	s.Values = slices.Clone(s.Values)
	for i, v := range s.Values {
		if !hasFacts(v) {
			continue
		}
		s.Values[i].Texts = map[string]string{}
		for fact, name := range v.Facts {
			s.Values[i].Texts[name] = known[fact]
		}
	}
	return s
}

// Inputs returns the sources, and the objects of values as sources whose items have names in place
// of paths.
func (s Spec) Inputs() []Source {
	if len(s.Values) == 0 {
		return s.Sources
	}
	all := slices.Clone(s.Sources)
	for _, v := range s.Values {
		if v.Source.Ref.Kind != "" {
			all = append(all, v.Source)
		}
	}
	return all
}

// Forgive returns the spec with the sources and values of some objects made optional. The spec
// itself stays as it is.
func (s Spec) Forgive(refs ...Ref) Spec {
	if len(refs) == 0 {
		return s
	}
	forgiven := make(map[Ref]bool, len(refs))
	for _, ref := range refs {
		forgiven[ref] = true
	}
	s.Sources, s.Values = slices.Clone(s.Sources), slices.Clone(s.Values)
	for i := range s.Sources {
		if s.Sources[i].Selection == nil && forgiven[s.Sources[i].Ref] {
			s.Sources[i].Optional = true
		}
	}
	for i := range s.Values {
		if forgiven[s.Values[i].Source.Ref] {
			s.Values[i].Source.Optional = true
		}
	}
	return s
}

// HasExpand reports whether a file of the volume gets values.
func (s Spec) HasExpand() bool {
	return slices.ContainsFunc(s.Sources, func(src Source) bool {
		return src.Expand != nil || slices.ContainsFunc(src.Items, func(i Item) bool { return i.Expand != nil })
	})
}

// values reads the list of values.
func (p *parser) values() []Value {
	text, found := p.attributes[KeyValues]
	if !found {
		return nil
	}
	at := field.NewPath(KeyValues)
	if _, isLong := p.attributes[KeySources]; !isLong {
		p.forbidden(at, "goes with sources, of which one has expand")
		return nil
	}
	value, ok := p.yaml(at, text)
	if !ok {
		return nil
	}
	var all []Value
	for i, entry := range p.counted(at, p.list(at, value, exampleValues), new(int), maxSources) {
		if v, ok := p.value(at.Index(i), entry); ok {
			all = append(all, v)
		}
	}
	return all
}

// value reads one entry, and reports whether it names something.
func (p *parser) value(at *field.Path, entry any) (Value, bool) {
	var v Value
	count := 0
	only := func(at *field.Path) {
		if count++; count > 1 {
			p.forbidden(at, "the entry already names other values, write a separate entry for these")
		}
	}
	object := func(at *field.Path, kind Kind, value any) {
		only(at)
		v.Source, v.Prefix = p.valueSource(at, kind, value)
	}
	p.object(at, entry, schema{
		example: exampleValue,
		fields: []property{
			{name: KeyConfigMap, read: func(at *field.Path, value any) { object(at, ConfigMap, value) }},
			{name: KeySecret, read: func(at *field.Path, value any) { object(at, Secret, value) }},
			{name: fieldPod, read: func(at *field.Path, value any) {
				only(at)
				v.Facts = p.facts(at, value)
			}},
		},
		elsewhere: nowhere,
	})
	return v, count > 0
}

// valueSource reads what configMap or secret of an entry holds.
func (p *parser) valueSource(at *field.Path, kind Kind, value any) (src Source, prefix string) {
	src.Ref.Kind = kind
	var namespace *string
	p.object(at, value, schema{
		example: "{name: db, prefix: DB_}",
		fields: []property{
			{
				name: "name", required: "write the name of the " + string(kind),
				read: func(at *field.Path, v any) { src.Ref.Name = p.nameOf(at, v) },
			},
			{name: KeyNamespace, read: func(at *field.Path, v any) { namespace = p.namespaceOf(at, v) }},
			{name: fieldPrefix, read: func(at *field.Path, v any) { prefix = p.valueName(at, v, maxPrefix) }},
			{name: KeyItems, read: func(at *field.Path, v any) { src.Items = p.valueItems(at, v) }},
			{name: KeyOptional, read: func(at *field.Path, v any) { src.Optional = p.boolean(at, v) }},
		},
		elsewhere: notInValues,
	})
	src.Ref.Namespace = p.namespaceOr(at.Child(KeyNamespace), namespace)
	return src, prefix
}

func notInValues(name string) string {
	if name == fieldLabelSelector {
		return "goes with sources only: values come from objects that have a name, so write one entry for each"
	}
	return nowhere(name)
}

// valueItems reads keys with the names of their values.
func (p *parser) valueItems(at *field.Path, value any) []Item {
	elements := p.counted(at, p.list(at, value, "[{key: password, path: DB_PASSWORD}]"), &p.itemCount, maxItems)
	items := make([]Item, len(elements))
	for i, element := range elements {
		item := &items[i]
		p.object(at.Index(i), element, schema{
			example: "{key: password, path: DB_PASSWORD}",
			fields: []property{
				{
					name: "key", required: "write which key has the value",
					read: func(at *field.Path, v any) { item.Key = p.key(at, v) },
				},
				{
					name: "path", required: "write the name of the value",
					read: func(at *field.Path, v any) { item.Path = p.valueName(at, v, maxValueName) },
				},
			},
			elsewhere: nowhere,
		})
	}
	return items
}

// facts reads facts of the pod with the names of their values.
func (p *parser) facts(at *field.Path, value any) map[string]string {
	found := map[string]string{}
	var fields []property
	for _, fact := range facts() {
		fields = append(fields, property{name: fact, read: func(at *field.Path, v any) {
			found[fact] = p.valueName(at, v, maxValueName)
		}})
	}
	p.object(at, value, schema{example: examplePod, fields: fields, elsewhere: nowhere})
	return found
}

// The most bytes that the name of a value may have, and a prefix, which is stored with each key of
// its object.
const (
	maxValueName = 253
	maxPrefix    = 64
)

// valueName returns the name of a value, or the beginning of one, which is a name too.
func (p *parser) valueName(at *field.Path, value any, most int) string {
	name, ok := p.text(at, value)
	switch {
	case !ok:
		return ""
	case len(name) > most:
		p.add(field.TooLong(at, name, most))
		return ""
	}
	if problems := validation.IsEnvVarName(name); len(problems) > 0 {
		p.invalid(at, name, "must be a name as of an environment variable: "+problems[0])
	}
	return name
}

// expand reads how files get values.
func (p *parser) expand(at *field.Path, value any) *Expand {
	e := &Expand{Syntax: SyntaxParentheses, Quote: QuoteNone}
	p.object(at, value, schema{
		example: exampleExpand,
		fields: []property{
			{name: "syntax", read: func(at *field.Path, v any) { e.Syntax = oneOf(p, at, v, SyntaxParentheses, SyntaxBraces) }},
			{name: "quote", read: func(at *field.Path, v any) { e.Quote = oneOf(p, at, v, quotes()...) }},
		},
		elsewhere: nowhere,
	})
	return e
}

// oneOf reads a text of a closed set.
func oneOf[T ~string](p *parser, at *field.Path, value any, choices ...T) T {
	text, ok := p.text(at, value)
	if ok && !slices.Contains(choices, T(text)) {
		p.unsupported(at, text, texts(choices)...)
	}
	return T(text)
}

package api

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The fields of a source that selects objects by their labels.
const (
	fieldLabelSelector    = "labelSelector"
	fieldNamespaces       = "namespaces"
	fieldPath             = "path"
	fieldFolderAnnotation = "folderAnnotation"
	fieldMode             = "mode"
)

// AllNamespaces is the entry of namespaces that stands for every namespace of the cluster.
const AllNamespaces = "*"

// Examples of a source that selects objects, for messages.
const (
	exampleSelection  = `{labelSelector: {matchLabels: {app: web}}}`
	exampleSelector   = `{matchLabels: {app: web}}`
	exampleLabels     = `{app: web}`
	exampleNamespaces = `[shop, billing] or ["*"]`
	exampleExpression = `{key: app, operator: In, values: [web, api]}`
	examplePath       = "$(namespace)/$(name)/$(key)"
)

// The limits of a selection, each more than anybody needs.
const (
	// maxRequirements is how many labels and expressions a selector may have, and maxValues how
	// many values in all. Both become part of the address of each request.
	maxRequirements = 32
	maxValues       = 128
	// maxNamespaces is how many all sources of a volume may list. Each has its own watch.
	maxNamespaces = 256
)

// Selection is the objects of a kind that have labels, in place of one object that has a name.
type Selection struct {
	// Selector is the text of the labels that the objects must have, as a request to the API
	// server spells it, with its parts sorted. Empty means every object.
	Selector string
	// Namespaces are sorted, each once. [AllNamespaces] stands alone.
	Namespaces []string
	// Path is that of the file of a key, with placeholders: see [Selection.PathOf].
	Path string
	// FolderAnnotation names the annotation of an object whose value goes before the path; empty
	// for none.
	FolderAnnotation string
	// Mode is the mode of the files; nil means [Spec.DefaultMode]. Zero is a set value.
	Mode *fs.FileMode
}

// Ranges returns what a source with a selection reads: all objects of its kind in each namespace,
// or in all of them. The refs have no name. A source that names its object has none.
func (src Source) Ranges() []Ref {
	if src.Selection == nil {
		return nil
	}
	all := make([]Ref, 0, len(src.Selection.Namespaces))
	for _, namespace := range src.Selection.Namespaces {
		if namespace == AllNamespaces {
			namespace = ""
		}
		all = append(all, src.Ref.In(namespace))
	}
	return all
}

// Ranges returns those of all sources, each once.
func (s Spec) Ranges() []Ref { return s.collect(Source.Ranges) }

// Selected returns a ref for each of [Source.Ranges], that stands for the objects with the labels:
// see [Ref.Selecting].
func (src Source) Selected() []Ref {
	all := src.Ranges()
	for i := range all {
		all[i] = all[i].Selecting(src.Selection.Selector)
	}
	return all
}

// Selected returns those of all sources, each once.
func (s Spec) Selected() []Ref { return s.collect(Source.Selected) }

// HasSelection reports whether a source selects objects by label.
func (s Spec) HasSelection() bool {
	return slices.ContainsFunc(s.Sources, func(src Source) bool { return src.Selection != nil })
}

func (s Spec) collect(of func(Source) []Ref) (all []Ref) {
	for _, src := range s.Sources {
		for _, ref := range of(src) {
			if !slices.Contains(all, ref) {
				all = append(all, ref)
			}
		}
	}
	return all
}

// Selecting returns the ref that stands for the objects that a selector finds in the namespace of
// r, or in all if that is empty. Its name is the selector in brackets: no object has such a name.
func (r Ref) Selecting(selector string) Ref { return r.Named("[" + selector + "]") }

// Selector returns the selector of a ref of [Ref.Selecting], and false for other refs.
func (r Ref) Selector() (selector string, selects bool) {
	inner, hasStart := strings.CutPrefix(r.Name, "[")
	selector, hasEnd := strings.CutSuffix(inner, "]")
	return selector, hasStart && hasEnd
}

// RequestSelector returns what requests for the objects of a selector ask for. The copies that
// controllers make never match: they may have the labels of their object.
func RequestSelector(selector string) string {
	parts := []string{"!" + Domain + "/copy-of", "!" + Domain + "/former-of", "!" + Domain + "/stable-of"}
	if selector != "" {
		parts = append(parts, selector)
	}
	return strings.Join(parts, ",")
}

// Selects reports whether a ref of [Ref.Selecting] stands for an object that has such labels, among
// others.
func (r Ref) Selects(ref Ref, has map[string]string) bool { return r.Matcher()(ref, has) }

// Matcher returns [Ref.Selects] for many objects.
func (r Ref) Matcher() func(ref Ref, has map[string]string) bool {
	selector, selects := r.Selector()
	parsed, err := labels.Parse(RequestSelector(selector))
	if !selects || err != nil {
		return func(Ref, map[string]string) bool { return false }
	}
	return func(ref Ref, has map[string]string) bool {
		isThere := r.Kind == ref.Kind && (r.Namespace == "" || r.Namespace == ref.Namespace)
		return isThere && parsed.Matches(labels.Set(has))
	}
}

// VersionOfAll returns a version that stands for all these objects, which are sorted by
// [CompareAge]: another one if one of them differs, is new, or is missing.
func VersionOfAll(objects []Content) string {
	h := sha256.New()
	for _, o := range objects {
		_, _ = fmt.Fprintln(h, o.Ref.Namespace, o.Ref.Name, o.UID, o.ResourceVersion)
	}
	const length = 10 // Bytes; about as readable as the versions of objects.
	return hex.EncodeToString(h.Sum(nil)[:length])
}

// CompareAge orders objects: older ones first, then by namespace and name.
func CompareAge(a Ref, createdA time.Time, b Ref, createdB time.Time) int {
	return cmp.Or(createdA.Compare(createdB), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// selects reports whether a source selects objects by their labels.
func selects(source any) bool { return memberOf(source, fieldLabelSelector) != nil }

// selection reads what configMap or secret of an entry holds if it selects objects.
func (p *parser) selection(at *field.Path, kind Kind, value any) Source {
	s := &Selection{Path: defaultSelectedPath}
	src := Source{Ref: Ref{Kind: kind}, Selection: s}
	p.object(at, value, schema{
		example: exampleSelection,
		fields: []property{
			{name: fieldLabelSelector, read: func(at *field.Path, v any) { s.Selector = p.selector(at, v) }},
			{name: fieldNamespaces, read: func(at *field.Path, v any) { s.Namespaces = p.namespaces(at, v) }},
			{name: fieldPath, read: func(at *field.Path, v any) { s.Path = p.template(at, v) }},
			{name: fieldFolderAnnotation, read: func(at *field.Path, v any) { s.FolderAnnotation = p.annotation(at, v) }},
			{name: KeyOptional, read: func(at *field.Path, v any) { src.Optional = p.boolean(at, v) }},
			{name: fieldMode, read: func(at *field.Path, v any) { s.Mode = p.mode(at, v) }},
		},
		elsewhere: notInSelection,
	})
	if s.Namespaces == nil && memberOf(value, fieldNamespaces) == nil {
		p.counted(at.Child(fieldNamespaces), make([]any, 1), &p.namespaceCount, maxNamespaces)
		s.Namespaces = []string{p.namespaceOr(at.Child(fieldNamespaces), nil)}
	}
	return src
}

func notInSelection(name string) string {
	switch name {
	case "name":
		return "cannot stand beside labelSelector, keep one"
	case KeyNamespace:
		return "beside labelSelector it is a list, write namespaces: [shop]"
	case KeyItems, fieldAs, fieldExpand:
		return "cannot stand beside labelSelector, which makes a file of every key: name the object, or drop it"
	default:
		return notInSource(name)
	}
}

// notInNamed is for the fields that only a source with labelSelector has.
func notInNamed(name string) string {
	switch name {
	case fieldNamespaces:
		return "goes with labelSelector, for one object write namespace"
	case fieldPath, fieldMode:
		return "goes with labelSelector, for the keys of one object write it inside items"
	case fieldFolderAnnotation:
		return "goes with labelSelector"
	default:
		return notInSource(name)
	}
}

// selector reads a LabelSelector of meta/v1, and returns it as a request spells it.
func (p *parser) selector(at *field.Path, value any) string {
	var parts []string
	count, values := 0, 0
	p.object(at, value, schema{
		example: exampleSelector,
		fields: []property{
			{name: "matchLabels", read: func(at *field.Path, v any) {
				parts = append(parts, p.labels(at, v, &count)...)
			}},
			{name: "matchExpressions", read: func(at *field.Path, v any) {
				elements := p.list(at, v, "["+exampleExpression+"]")
				for i, element := range p.bounded(at, elements, &count, maxRequirements) {
					parts = append(parts, p.expression(at.Index(i), element, &values))
				}
			}},
		},
		elsewhere: func(string) string { return "a label goes inside matchLabels: write " + exampleSelector },
	})
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
}

// bounded is [parser.counted] for what one source may have.
func (p *parser) bounded(at *field.Path, elements []any, already *int, most int) []any {
	*already += len(elements)
	if *already <= most {
		return elements
	}
	p.tooMany(at, len(elements), *already, most)
	return nil
}

func (p *parser) tooMany(at *field.Path, count, inAll, most int) {
	p.invalid(at, count, fmt.Sprintf("the most for a source is %d, this makes %d", most, inAll))
}

// labels reads matchLabels.
func (p *parser) labels(at *field.Path, value any, count *int) (parts []string) {
	members, ok := membersOf(value)
	if !ok {
		p.wrongType(at, value, "an object", "write "+exampleLabels)
		return nil
	}
	if *count += len(members); *count > maxRequirements {
		p.tooMany(at, len(members), *count, maxRequirements)
		return nil
	}
	seen := map[string]bool{}
	for _, member := range members {
		key, ok := member.Key.(string)
		if !ok {
			p.wrongType(at.Child(keyLabel(member.Key)), member.Key, "the name of a label", textHint(member.Key))
			continue
		}
		at := at.Child(label(key))
		if seen[key] {
			p.duplicate(at, key, "the label is given more than once, keep one")
			continue
		}
		seen[key] = true
		p.labelKey(at, key)
		parts = append(parts, key+"="+p.labelValue(at, member.Value))
	}
	return parts
}

// The operators of an expression.
const (
	isIn         = "In"
	isNotIn      = "NotIn"
	exists       = "Exists"
	doesNotExist = "DoesNotExist"
)

// expression is one element of matchExpressions.
type expression struct {
	key, operator string
	values        []string
}

// expression reads one element of matchExpressions, and returns it as a request spells it.
func (p *parser) expression(at *field.Path, value any, count *int) string {
	var e expression
	p.object(at, value, schema{
		example: exampleExpression,
		fields: []property{
			{name: "key", required: "write the name of a label", read: func(at *field.Path, v any) {
				e.key, _ = p.text(at, v)
				p.labelKey(at, e.key)
			}},
			{name: "operator", required: "write In, NotIn, Exists or DoesNotExist", read: func(at *field.Path, v any) {
				e.operator = p.operator(at, v)
			}},
			{name: "values", read: func(at *field.Path, v any) {
				for i, element := range p.bounded(at, p.list(at, v, "[web, api]"), count, maxValues) {
					e.values = append(e.values, p.labelValue(at.Index(i), element))
				}
			}},
		},
		elsewhere: nowhere,
	})
	switch {
	case e.operator == "": // A mistake.
	case e.hasValues() && len(e.values) == 0:
		p.required(at.Child("values"), "write at least one value beside In and NotIn")
	case !e.hasValues() && len(e.values) > 0:
		p.forbidden(at.Child("values"), "cannot stand beside Exists and DoesNotExist")
	}
	return e.String()
}

func (p *parser) operator(at *field.Path, value any) string {
	known := []string{isIn, isNotIn, exists, doesNotExist}
	operator, ok := p.text(at, value)
	if ok && !slices.Contains(known, operator) {
		p.unsupported(at, operator, known...)
		return ""
	}
	return operator
}

func (e expression) hasValues() bool { return e.operator == isIn || e.operator == isNotIn }

// String returns the expression as a request spells it.
func (e expression) String() string {
	slices.Sort(e.values)
	list := " (" + strings.Join(slices.Compact(e.values), ",") + ")"
	switch e.operator {
	case isIn:
		return e.key + " in" + list
	case isNotIn:
		return e.key + " notin" + list
	case doesNotExist:
		return "!" + e.key
	default:
		return e.key
	}
}

func (p *parser) labelKey(at *field.Path, key string) {
	if len(validation.IsQualifiedName(key)) > 0 {
		p.invalid(at, key, `must be the name of a label: up to 63 of letters, digits, "-", "_" and ".", `+
			`first and last a letter or digit, perhaps after a domain and a slash`)
	}
}

// labelValue returns the value of a label, or "" after a mistake.
func (p *parser) labelValue(at *field.Path, value any) string {
	text, ok := p.text(at, value)
	if ok && len(validation.IsValidLabelValue(text)) > 0 {
		p.invalid(at, text, `must be the value of a label: up to 63 of letters, digits, "-", "_" and ".", `+
			"first and last a letter or digit, or empty")
		return ""
	}
	return text
}

// namespaces reads the namespaces of a selection, sorted, or nil after a mistake.
func (p *parser) namespaces(at *field.Path, value any) []string {
	elements := p.list(at, value, exampleNamespaces)
	if list, isList := value.([]any); isList && len(list) == 0 {
		p.required(at, "must have at least one namespace, or leave it out for the pod's own")
		return nil
	}
	var found []string
	for i, element := range p.counted(at, elements, &p.namespaceCount, maxNamespaces) {
		at := at.Index(i)
		if element == AllNamespaces {
			found = append(found, AllNamespaces)
			continue
		}
		namespace := *p.namespaceOf(at, element)
		if slices.Contains(found, namespace) {
			p.duplicate(at, namespace, "the namespace is listed more than once, keep one")
			continue
		}
		found = append(found, namespace)
	}
	if len(found) > 1 && slices.Contains(found, AllNamespaces) {
		p.forbidden(at, `"*" is every namespace, so it stands alone: write ["*"], or list namespaces without it`)
	}
	slices.SortFunc(found, cmp.Compare)
	return found
}

// annotation returns the name of an annotation, or "" after a mistake.
func (p *parser) annotation(at *field.Path, value any) string {
	name, ok := p.text(at, value)
	if ok && len(validation.IsQualifiedName(strings.ToLower(name))) > 0 {
		p.invalid(at, name, "must be the name of an annotation, such as grafana_folder")
		return ""
	}
	return name
}

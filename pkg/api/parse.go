package api

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxID is the largest user or group ID that core/v1 accepts.
const maxID = 1<<31 - 1

// Parse turns volumeAttributes into a Spec with every default filled in. Namespace is the pod's,
// for sources that name none. Keys that start with [KubeletPrefix] are ignored. The error is an
// *[AttributesError] that lists every mistake at once.
func Parse(attributes map[string]string, namespace string) (Spec, error) {
	p := parser{attributes: attributes, namespace: namespace, meant: map[string]bool{}}
	p.unknownAttributes()
	spec := Spec{
		Sources:      p.form(),
		DefaultMode:  p.defaultMode(),
		UID:          p.user(),
		GID:          p.id(KeyGID),
		UpdatePolicy: choice(&p, KeyUpdatePolicy, UpdateAtomic, UpdateReplace, UpdateInPlace, UpdateNever),
		OnDelete:     choice(&p, KeyOnDelete, OnDeleteKeep, OnDeleteRemove),
	}
	spec.Values = p.values()
	spec.MountPoints, spec.MountPointsIfAbsent = p.mountPoints()
	if err := p.err(); err != nil {
		return Spec{}, err
	}
	return spec, nil
}

// parser reads the attributes of one volume. Each method reads one thing in the order a reader
// meets it, collects the mistakes, and returns a value that only counts if there are no mistakes.
type parser struct {
	attributes map[string]string
	namespace  string
	// meant holds the attributes that a misspelled key was probably meant to be: they are not
	// reported as missing too.
	meant     map[string]bool
	paths     *pathSet
	itemCount int // Of all sources so far.
	// namespaceCount is that of all selections so far.
	namespaceCount int
	mistakes
}

func knownAttributes() []string {
	return []string{
		KeyConfigMap, KeySecret, KeyNamespace, KeyItems, KeyOptional, KeySources,
		KeyDefaultMode, KeyUID, KeyGID, KeyDefaultUser, KeyUpdatePolicy, KeyOnDelete, KeyMountPoints, KeyValues,
	}
}

func (p *parser) unknownAttributes() {
	known := knownAttributes()
	for _, key := range slices.Sorted(maps.Keys(p.attributes)) {
		if strings.HasPrefix(key, KubeletPrefix) || slices.Contains(known, key) {
			continue
		}
		at := field.NewPath(label(key))
		if key == fieldAs {
			p.forbidden(at, "goes inside configMap or secret of an entry of sources, which is the long form")
			continue
		}
		p.meant[p.unknown(at, "attribute", key, known)] = true
	}
}

// form reads the sources in whichever form they are given.
func (p *parser) form() []Source {
	text, long := p.attributes[KeySources]
	if !long {
		p.paths = newPathSet(lastRepeatWins)
		return []Source{p.shortForm()}
	}
	for _, key := range []string{KeyConfigMap, KeySecret, KeyNamespace, KeyItems, KeyOptional} {
		if _, ok := p.attributes[key]; ok {
			p.forbidden(field.NewPath(key), "cannot stand beside sources, move it into an entry of that list")
		}
	}
	p.paths = newPathSet(refuseRepeats)
	return p.sources(field.NewPath(KeySources), text)
}

// shortForm reads the one source of the short form.
func (p *parser) shortForm() Source {
	src := Source{Ref: p.shortRef()}
	p.paths.optional = p.attributes[KeyOptional] == "true"
	if text, ok := p.attributes[KeyItems]; ok {
		at := field.NewPath(KeyItems)
		if value, ok := p.yaml(at, text); ok && value != nil {
			src.Items = p.items(at, value)
		}
	}
	if text, ok := p.attributes[KeyOptional]; ok {
		src.Optional = text == "true"
		if text != "true" && text != "false" {
			p.unsupported(field.NewPath(KeyOptional), text, "true", "false")
		}
	}
	return src
}

func (p *parser) shortRef() Ref {
	var ref Ref
	if name, ok := p.attributes[KeyConfigMap]; ok {
		ref = Ref{Kind: ConfigMap, Name: p.name(field.NewPath(KeyConfigMap), name)}
	}
	if name, ok := p.attributes[KeySecret]; ok {
		at := field.NewPath(KeySecret)
		if ref.Kind != "" {
			p.forbidden(at, "cannot stand beside configMap, keep one or list both in sources")
		}
		ref = Ref{Kind: Secret, Name: p.name(at, name)}
	}
	if ref.Kind == "" && !p.meant[KeyConfigMap] && !p.meant[KeySecret] && !p.meant[KeySources] {
		p.required(field.NewPath(KeyConfigMap), "write the name of a ConfigMap, or use secret or sources instead")
	}
	at := field.NewPath(KeyNamespace)
	var namespace *string
	if text, ok := p.attributes[KeyNamespace]; ok {
		namespace = p.namespaceOf(at, text)
	}
	ref.Namespace = p.namespaceOr(at, namespace)
	return ref
}

func (p *parser) defaultMode() fs.FileMode {
	text, ok := p.attributes[KeyDefaultMode]
	if !ok {
		return DefaultMode
	}
	mode, ok := parseOctal(text)
	if !ok {
		p.invalid(field.NewPath(KeyDefaultMode), text, "must be an octal number from 0000 to 0777"+decimalHint(text))
	}
	return mode
}

// parseOctal reads permission bits such as 0440, 440 and 0o440: always octal, without the special
// bits.
func parseOctal(text string) (fs.FileMode, bool) {
	digits := strings.TrimPrefix(text, "0o")
	mode, err := strconv.ParseUint(digits, 8, 32)
	if err != nil || len(digits) > 4 || mode > 0o777 {
		return 0, false
	}
	return fs.FileMode(mode), true
}

// decimalHint helps a user who copied the decimal number from the JSON of a pod: 420 would pass as
// octal, 493 cannot.
func decimalHint(text string) string {
	decimal, err := strconv.ParseUint(text, 10, 32)
	if err != nil || decimal > 0o777 || strings.HasPrefix(text, "0") {
		return ""
	}
	return fmt.Sprintf(", did you mean %#04o (decimal %d)?", decimal, decimal)
}

// user reads the owner of files, which has two names; nil means that it is not set.
func (p *parser) user() *int {
	uid, user := p.id(KeyUID), p.id(KeyDefaultUser)
	switch {
	case uid == nil:
		return user
	case user != nil && *user != *uid:
		p.forbidden(field.NewPath(KeyDefaultUser), "is core/v1's name of uid and has another value, keep one")
	}
	return uid
}

// id reads the ID of a user or group; nil means that it is not set.
func (p *parser) id(key string) *int {
	text, ok := p.attributes[key]
	if !ok {
		return nil
	}
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 || id > maxID || strconv.Itoa(id) != text {
		p.invalid(field.NewPath(key), text, fmt.Sprintf("must be a decimal number from 0 to %d", maxID))
	}
	return &id
}

// choice reads an attribute that has a closed set of values, of which the first is the default.
func choice[T ~string](p *parser, key string, choices ...T) T {
	text, ok := p.attributes[key]
	if !ok {
		return choices[0]
	}
	if !slices.Contains(choices, T(text)) {
		p.unsupported(field.NewPath(key), text, texts(choices)...)
	}
	return T(text)
}

func texts[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

// unsupported reports a value that is not among the choices.
func (p *parser) unsupported(at *field.Path, value string, choices ...string) {
	mistake := field.NotSupported(at, Shorten(value), choices)
	if meant := closest(value, choices); meant != "" {
		mistake.Detail += fmt.Sprintf(", did you mean %q?", meant)
	}
	p.add(mistake)
}

package api

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The placeholders of the path of a selection.
const (
	inNamespace = "$(namespace)"
	inName      = "$(name)"
	inKey       = "$(key)"
)

// defaultSelectedPath is the path of a file unless the selection has another one.
const defaultSelectedPath = inKey

// PathOf returns the cleaned path of the file of a key, and what is wrong with it, or "". Folder is
// the value of the annotation of the object; empty for none. A path that is too long is not made:
// then the template stands for it.
func (s Selection) PathOf(ref Ref, key, folder string) (clean, problem string) {
	if length := s.lengthOf(ref, key, folder); length > maxPath {
		return s.Path, fmt.Sprintf("must have at most %d bytes, not %d", maxPath, length)
	}
	raw := s.filledPath(ref, key)
	if folder != "" {
		raw = folder + "/" + raw
	}
	clean = path.Clean(raw)
	if slashes := strings.Count(folder, "/"); slashes >= maxElements {
		return clean, fmt.Sprintf("must have at most %d elements, not %d", maxElements, slashes+1)
	}
	return clean, pathProblem(raw, clean)
}

// filledPath replaces the placeholders of the path. The parser has refused unknown ones. Each sync
// does this for every key, and a [strings.Replacer] takes much longer to make than to use.
func (s Selection) filledPath(ref Ref, key string) string {
	var b strings.Builder
	before, rest, found := strings.Cut(s.Path, "$(")
	for b.WriteString(before); found; b.WriteString(before) {
		var name string
		name, rest, _ = strings.Cut(rest, ")")
		switch name {
		case "namespace":
			b.WriteString(ref.Namespace)
		case "name":
			b.WriteString(ref.Name)
		case "key":
			b.WriteString(key)
		}
		before, rest, found = strings.Cut(rest, "$(")
	}
	return b.String()
}

// MayMake reports whether a file at a path, or below it, can be that of an object of a namespace;
// empty for any. Only what the path begins with is compared.
func (s Selection) MayMake(namespace, file string) bool {
	if s.FolderAnnotation != "" {
		return true
	}
	begins := s.Path
	if namespace != "" {
		begins = strings.ReplaceAll(begins, "$(namespace)", namespace)
	}
	begins, _, _ = strings.Cut(begins, "$(")
	return strings.HasPrefix(file, begins) || strings.HasPrefix(begins, file)
}

// lengthOf returns how many bytes a path has before it is cleaned.
func (s Selection) lengthOf(ref Ref, key, folder string) int {
	more := func(placeholder, value string) int {
		return strings.Count(s.Path, placeholder) * (len(value) - len(placeholder))
	}
	length := len(s.Path) + more(inNamespace, ref.Namespace) + more(inName, ref.Name) + more(inKey, key)
	if folder != "" {
		length += len(folder) + len("/")
	}
	return length
}

// template returns the cleaned path of the files of a selection, or "" after a mistake.
func (p *parser) template(at *field.Path, value any) string {
	text, ok := p.text(at, value)
	switch {
	case !ok:
		return ""
	case text == "":
		p.required(at, "must not be empty, write "+examplePath+" or leave it out for $(key)")
		return ""
	case len(text) > maxPath:
		p.invalid(at, text, fmt.Sprintf("must have at most %d bytes, not %d", maxPath, len(text)))
		return ""
	}
	sample := strings.NewReplacer(inNamespace, "x", inName, "x", inKey, "x").Replace(text)
	if strings.Contains(sample, "$(") {
		p.invalid(at, text, "has a placeholder that is not known, known are $(namespace), $(name) and $(key)")
		return ""
	}
	if problem := pathProblem(sample, path.Clean(sample)); problem != "" {
		p.invalid(at, text, problem)
		return ""
	}
	return path.Clean(text)
}

package api

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of Linux file systems, in bytes.
const (
	maxPath    = 4096
	maxElement = 255
)

// maxElements is how many elements a path may have. No program needs more, and each one is a
// directory that a writer makes and walks.
const maxElements = 64

// path returns the cleaned path of an item, or "" after a mistake.
func (p *parser) path(at *field.Path, value any) string {
	raw, ok := p.text(at, value)
	if !ok {
		return ""
	}
	if raw == "" {
		p.required(at, "must not be empty, write where in the volume the file goes")
		return ""
	}
	clean := path.Clean(raw)
	if problem := pathProblem(raw, clean); problem != "" {
		p.invalid(at, raw, problem)
		return ""
	}
	if conflict := p.paths.place(at, raw, clean); conflict != nil {
		p.add(conflict)
	}
	return clean
}

// pathProblem returns what is wrong with the path of an item, or "". The volume keeps names that
// start with two dots at its root for itself, and cleaning can bring such a name to the root, so
// both spellings are checked.
func pathProblem(raw, clean string) string {
	elements := strings.Split(raw, "/")
	tooLong := func(element string) bool { return len(element) > maxElement }
	switch {
	case path.IsAbs(raw):
		return "must be relative to the volume, drop the slash in front"
	case slices.Contains(elements, ".."):
		return `must not contain the element ".."`
	case strings.HasPrefix(raw, ".."):
		return `must not start with "..", such names are reserved`
	case strings.HasPrefix(clean, ".."):
		return fmt.Sprintf(`must not start with "..", such names are reserved, and it means %q`, Shorten(clean))
	case clean == ".":
		return "must name a file, and it means the volume itself"
	case !utf8.ValidString(raw):
		return "must be UTF-8"
	case strings.ContainsRune(raw, 0):
		return "must not contain a NUL byte"
	case len(raw) > maxPath:
		return fmt.Sprintf("must have at most %d bytes, not %d", maxPath, len(raw))
	case slices.ContainsFunc(elements, tooLong):
		return fmt.Sprintf("must have at most %d bytes between slashes", maxElement)
	case strings.Count(clean, "/") >= maxElements:
		return fmt.Sprintf("must have at most %d elements, not %d", maxElements, strings.Count(clean, "/")+1)
	default:
		return ""
	}
}

// repeats is what an explicit path given twice in the same spelling means.
type repeats int

const (
	refuseRepeats repeats = iota
	lastRepeatWins
)

// placed is an explicit path, where it was given, and whether its file may be absent.
type placed struct {
	at       *field.Path
	raw      string
	optional bool
}

// pathSet holds the explicit paths of a volume by their cleaned spelling, to find those that can
// never stand in one tree. A file and a file below it can take turns if one of them is optional;
// whether both exist is seen when the objects are read.
type pathSet struct {
	repeats repeats
	// optional reports whether the source that is being read is.
	optional bool
	files    map[string]placed
	// dirs are the directories that files need, each with the first file that needs it, a required
	// one before any optional one.
	dirs map[string]placed
}

func newPathSet(r repeats) *pathSet {
	return &pathSet{repeats: r, files: map[string]placed{}, dirs: map[string]placed{}}
}

// expect makes space for the paths of a list, which may be thousands.
func (s *pathSet) expect(count int) {
	if len(s.files) == 0 {
		s.files = make(map[string]placed, count)
	}
}

// place adds a path, or returns how it conflicts with one placed before.
func (s *pathSet) place(at *field.Path, raw, clean string) *field.Error {
	if first, ok := s.files[clean]; ok {
		return s.repeat(at, raw, first)
	}
	file := placed{at: at, raw: raw, optional: s.optional}
	if below, ok := s.dirs[clean]; ok && !below.optional && !file.optional {
		return field.Invalid(at, Shorten(raw),
			fmt.Sprintf("cannot be a file, %s (%q) needs it as a directory", below.at, Shorten(below.raw)))
	}
	for dir := path.Dir(clean); dir != "."; dir = path.Dir(dir) {
		if above, ok := s.files[dir]; ok && !above.optional && !file.optional {
			return field.Invalid(at, Shorten(raw),
				fmt.Sprintf("needs a directory where %s (%q) makes a file", above.at, Shorten(above.raw)))
		}
	}
	s.files[clean] = file
	for dir := path.Dir(clean); dir != "."; dir = path.Dir(dir) {
		if first, ok := s.dirs[dir]; ok && (!first.optional || file.optional) {
			break // The first file needs the directories above as well.
		}
		s.dirs[dir] = file
	}
	return nil
}

func (s *pathSet) repeat(at *field.Path, raw string, first placed) *field.Error {
	if s.repeats == lastRepeatWins && raw == first.raw {
		return nil
	}
	mistake := field.Duplicate(at, Shorten(raw))
	mistake.Detail = fmt.Sprintf("%s has the same path, change one", first.at)
	if raw != first.raw {
		mistake.Detail = fmt.Sprintf("%s (%q) means the same file, change one", first.at, Shorten(first.raw))
	}
	return mistake
}

// Package manifest reads files of manifests and finds pod specs in them, of whatever kind the
// object around them is, with the lines on which everything stands.
//
// It does not know the API server, and volumes no further than that a pod spec lists them.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Stdin is how people name the standard input.
const Stdin = "-"

// File is a file of manifests.
type File struct {
	Name string
	Text string
}

// Input describes which files to read.
type Input struct {
	// Names are of files and directories; [Stdin] is read from the reader.
	Names []string
	Stdin io.Reader
	// Recursive goes into directories of directories.
	Recursive bool
}

// Read returns the files that are named, and of directories those that kubectl would take.
func Read(in Input) ([]File, error) {
	var files []File
	var errs []error
	for _, name := range in.Names {
		found, err := read(in, name)
		files, errs = append(files, found...), append(errs, err)
	}
	return files, errors.Join(errs...)
}

func read(in Input, name string) ([]File, error) {
	if name == Stdin {
		text, err := io.ReadAll(in.Stdin)
		if err != nil {
			return nil, fmt.Errorf("read the standard input: %w", err)
		}
		return []File{{Name: "stdin", Text: string(text)}}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return readFile(name)
	}
	return readDirectory(in, name)
}

func readFile(name string) ([]File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return []File{{Name: name, Text: string(text)}}, nil
}

func readDirectory(in Input, dir string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != dir && !in.Recursive:
			return fs.SkipDir
		case entry.IsDir(), !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			return nil
		}
		found, err := readFile(path)
		files = append(files, found...)
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no files that end with .yaml, .yml or .json", dir)
	}
	return files, err
}

// Part is a document of a file, or a separator between two. The texts of all parts are the text of
// the file.
type Part struct {
	Text string
	// Line is where the part begins, from one.
	Line        int
	IsSeparator bool
}

// Parts splits a file where it has lines of three dashes.
func (f File) Parts() []Part {
	separator := regexp.MustCompile(`(?m)^---(?:[ \t]+#.*|[ \t]*)\r?(?:\n|\z)`)
	var parts []Part
	done, line := 0, 1
	add := func(end int, isSeparator bool) {
		if end == done {
			return
		}
		text := f.Text[done:end]
		parts = append(parts, Part{Text: text, Line: line, IsSeparator: isSeparator})
		done, line = end, line+strings.Count(text, "\n")
	}
	for _, at := range separator.FindAllStringIndex(f.Text, -1) {
		add(at[0], false)
		add(at[1], true)
	}
	add(len(f.Text), false)
	return parts
}

// Join puts the texts of files together as one file.
func Join(texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		if b.Len() > 0 && !strings.HasPrefix(text, "---") {
			b.WriteString("---\n")
		}
		b.WriteString(text)
		if text != "" && !strings.HasSuffix(text, "\n") {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// Documents returns the documents of a file, or why one cannot be read.
func (f File) Documents() iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		for _, part := range f.Parts() {
			if !part.IsSeparator && !yield(Parse(part)) {
				return
			}
		}
	}
}

// Step is one step of a path: a field, or an index into a list.
type Step struct {
	Field string
	Index int // Counts where Field is empty.
}

// Path leads to a value of a document.
type Path []Step

// Field returns the path to a field.
func (p Path) Field(names ...string) Path {
	longer := slices.Clone(p)
	for _, name := range names {
		longer = append(longer, Step{Field: name})
	}
	return longer
}

// Index returns the path to an element of a list.
func (p Path) Index(i int) Path { return append(slices.Clone(p), Step{Index: i}) }

// String writes the path as messages have it, such as spec.volumes[0].
func (p Path) String() string {
	var b strings.Builder
	for _, step := range p {
		switch {
		case step.Field == "":
			fmt.Fprintf(&b, "[%d]", step.Index)
		case b.Len() > 0:
			b.WriteString("." + step.Field)
		default:
			b.WriteString(step.Field)
		}
	}
	return b.String()
}

// ParsePath reads a path as messages have it. Where a name is quoted or has dots, the path ends
// before it.
func ParsePath(text string) Path {
	var p Path
	step := regexp.MustCompile(`^(?:\.?([A-Za-z][A-Za-z0-9]*)|\[([0-9]{1,6})\])`)
	for {
		found := step.FindStringSubmatch(text)
		if found == nil {
			return p
		}
		text = text[len(found[0]):]
		if found[1] != "" {
			p = append(p, Step{Field: found[1]})
			continue
		}
		index, _ := strconv.Atoi(found[2]) // They are six digits at most.
		p = append(p, Step{Index: index})
	}
}

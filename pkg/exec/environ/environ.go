// Package environ makes the environment of a program out of files: whole directories, single keys,
// and files of assignments.
//
// The order is that of the sources, and the later one wins. A name of a variable is what Kubernetes
// takes for one: any printable ASCII but the equals sign. A value is a file, byte by byte.
//
// The package does not know how files are read, when they change, or what is run. No error of it,
// and nothing it returns beside the environment itself, has a byte of a value.
package environ

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/files/dotenv"
)

// Kind is what a source is.
type Kind int

// The kinds of sources.
const (
	// Dir is a directory, each file of which is a variable.
	Dir Kind = iota
	// EnvFile is a file of assignments, see package dotenv.
	EnvFile
	// Key is a file that is one variable.
	Key
)

// Source is where variables come from.
type Source struct {
	Kind Kind
	// Path is that of a directory or file, as the user wrote it.
	Path string
	// Prefix stands before each name of a Dir.
	Prefix string
	// Name is the variable of a Key.
	Name string
	// Optional forgives a Key whose file does not exist, and nothing else.
	Optional bool
}

// String is the source as the user wrote it.
func (s Source) String() string {
	switch {
	case s.Kind == EnvFile:
		return "--env-file " + s.Path
	case s.Kind == Key && s.Optional:
		return "--key " + s.Name + "=" + s.Path + ",optional"
	case s.Kind == Key:
		return "--key " + s.Name + "=" + s.Path
	case s.Prefix != "":
		return "--from " + s.Path + ",prefix=" + s.Prefix
	}
	return "--from " + s.Path
}

// explain adds to an error, or to each that was joined to it, what it is about.
func (s Source) explain(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", s, err)
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, s.explain(one))
	}
	return errors.Join(all...)
}

// File is one file that was read. It prints as a size.
type File struct {
	Name string
	Data []byte
}

// String has no byte of the content.
func (f File) String() string { return fmt.Sprintf("%q (%d bytes)", f.Name, len(f.Data)) }

// GoString is String.
func (f File) GoString() string { return f.String() }

// Content is what a source holds: the files of a Dir in the order of their names, or the one file
// of another kind.
type Content struct {
	Files []File
	// Missing means that the directory or file does not exist.
	Missing bool
	// Err is why it could not be read, or some of its files, which are then left out of Files: see
	// [FileErrors].
	Err error
}

// FileError is why one file of a Dir could not be read.
type FileError struct {
	Name string
	Err  error
}

// Error names the file.
func (e *FileError) Error() string { return fmt.Sprintf("%q: %v", e.Name, e.Err) }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// FileErrors takes an error of a Dir apart. If it is about single files alone, those are all; else
// it is returned as rest.
func FileErrors(err error) (files []*FileError, rest error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, err
	}
	for _, one := range joined.Unwrap() {
		f, ok := errors.AsType[*FileError](one)
		if !ok {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Environment is what a program is started with.
type Environment struct {
	// Variables are NAME=value, as a program gets them.
	Variables []string
	// Skipped are the files that cannot be variables, by source and reason.
	Skipped []Skip
}

// Precedence decides which value wins where a variable is set already.
type Precedence int

// The two.
const (
	// Sources override what is set already.
	Sources Precedence = iota
	// Existing variables stay.
	Existing
)

// Build returns the environment that the contents of the sources make on top of one that is there
// already. It skips each file of a Dir, and of an optional Key, that cannot be a variable within
// the limits, and returns all other mistakes at once. [Limits.Check] checks the result as a whole.
func Build(
	existing []string, sources []Source, contents []Content, wins Precedence, limits Limits,
) (Environment, error) {
	b := &builder{limits: limits, values: map[string]string{}}
	var errs []error
	for i, source := range sources {
		if err := b.add(source, contents[i]); err != nil {
			errs = append(errs, source.explain(err))
		}
	}
	if len(errs) > 0 {
		return Environment{}, errors.Join(errs...)
	}
	return Environment{Variables: b.merge(existing, wins), Skipped: b.skipped}, nil
}

// builder collects variables.
type builder struct {
	limits Limits
	// names are in the order in which they came first.
	names   []string
	values  map[string]string
	skipped []Skip
}

func (b *builder) add(s Source, c Content) error {
	switch {
	case c.Missing && s.Kind == Key && s.Optional:
		return nil
	case c.Missing:
		return missing(s)
	case s.Kind == Dir:
		return b.addDir(s, c)
	case s.Kind == Key:
		return b.addKey(s, c)
	case c.Err != nil:
		return c.Err
	}
	return b.addAssignments(c.Files[0].Data)
}

func missing(s Source) error {
	switch s.Kind {
	case Key:
		return errors.New("there is no such file; to start without it, append ,optional")
	case EnvFile:
		return errors.New("there is no such file")
	default:
		return errors.New("there is no such directory; is the volume mounted there?")
	}
}

func (b *builder) addDir(s Source, c Content) error {
	var errs []error
	for _, f := range c.Files {
		errs = append(errs, b.skip(s, f, b.set(s.Prefix+f.Name, string(f.Data))))
	}
	files, rest := FileErrors(c.Err)
	for _, f := range files {
		errs = append(errs, b.skip(s, File{Name: f.Name}, f))
	}
	return errors.Join(append(errs, rest)...)
}

func (b *builder) addKey(s Source, c Content) error {
	file, err := File{Name: filepath.Base(s.Path)}, c.Err
	if err == nil {
		file = c.Files[0]
		err = b.set(s.Name, string(file.Data))
	}
	if s.Optional {
		err = b.skip(s, file, err)
	}
	return err
}

func (b *builder) addAssignments(data []byte) error {
	variables, err := dotenv.Parse(data)
	for _, v := range variables {
		err = errors.Join(err, b.set(v.Name, v.Value))
	}
	return err
}

// set adds a variable, or returns why there can be none.
func (b *builder) set(name, value string) error {
	switch {
	case !IsName(name):
		return unusable("names of variables are printable ASCII without =")
	case strings.IndexByte(value, 0) >= 0:
		return unusable("a variable cannot hold a NUL byte: have the program read the file instead")
	}
	if err := b.limits.checkOne(name, value); err != nil {
		return err
	}
	if _, ok := b.values[name]; !ok {
		b.names = append(b.names, name)
	}
	b.values[name] = value
	return nil
}

// merge returns the existing variables that stay, in their order, and then those of the sources.
func (b *builder) merge(existing []string, wins Precedence) []string {
	all := make([]string, 0, len(existing)+len(b.names))
	kept := map[string]bool{}
	for _, variable := range existing {
		name, _, _ := strings.Cut(variable, "=")
		if _, ok := b.values[name]; ok && wins == Sources {
			continue
		}
		kept[name] = true
		all = append(all, variable)
	}
	for _, name := range b.names {
		if !kept[name] {
			all = append(all, name+"="+b.values[name])
		}
	}
	return all
}

// IsName reports whether Kubernetes takes name for that of a variable.
func IsName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return name != ""
}

// Digest is of what sources hold: two are equal if no name and no byte differs.
type Digest [sha256.Size]byte

// DigestOf returns the digest of contents.
func DigestOf(contents []Content) Digest {
	hash := sha256.New()
	var size [8]byte
	number := func(n int) {
		binary.BigEndian.PutUint64(size[:], uint64(n)) //nolint:gosec // Lengths are not negative.
		hash.Write(size[:])
	}
	for _, c := range contents {
		if c.Missing {
			number(0)
			continue
		}
		number(len(c.Files) + 1)
		for _, f := range c.Files {
			number(len(f.Name))
			hash.Write([]byte(f.Name))
			number(len(f.Data))
			hash.Write(f.Data)
		}
	}
	return Digest(hash.Sum(nil))
}

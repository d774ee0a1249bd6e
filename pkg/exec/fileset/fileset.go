// Package fileset reads the files of sources as one consistent set, and reports when they change.
//
// A volume that is switched as a whole, by the link ..data, is read through that link once,
// whatever of it is asked for: what is read is of one moment. Files of other volumes are read one
// by one, and again if one of them changed meanwhile.
//
// Links are followed below the directory of a source, and no further.
//
// The package does not know what the files mean to a program, and shows nobody what is in them.
package fileset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
	"github.com/liveconfig-csi/liveconfig/pkg/files/layout"
)

const (
	// mostReads is how often files are read that change meanwhile, and pause how much longer each
	// wait between is: more than four seconds in all. A volume that changes all the time is read in
	// the fraction of a millisecond.
	mostReads = 40
	pause     = 5 * time.Millisecond
	// tick is more than what lies between two moments of the clock by which most kernels stamp
	// files.
	tick = 20 * time.Millisecond
)

// Set is what was read.
type Set struct {
	// Contents are those of the sources, in their order.
	Contents []environ.Content
	seen     []snapshot
}

// snapshot is what was found at a path before its content was read, and when.
type snapshot struct {
	path  string
	state state
	at    time.Time
}

func snapshotOf(path string) snapshot { return snapshot{path, look(path), time.Now()} }

// isYoung reports whether a change may have come after the snapshot, and have left the same stamp
// as the one before it.
func (s snapshot) isYoung() bool { return s.at.Sub(time.Unix(s.state.ctime.Unix())).Abs() < tick }

// state changes with what is at a path. The zero value is that of nothing.
type state struct {
	dev, inode   uint64
	size         int64
	mtime, ctime unix.Timespec
}

func stateOf(s *unix.Stat_t) state {
	dev := uint64(s.Dev) //nolint:unconvert // Not on each architecture.
	return state{dev: dev, inode: s.Ino, size: s.Size, mtime: s.Mtim, ctime: s.Ctim}
}

// look returns the state of a path. Whatever cannot be looked at is as if it were not there.
func look(path string) state {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return state{}
	}
	return stateOf(&s)
}

// IsCurrent reports whether everything is as it was when it was read.
func (s Set) IsCurrent() bool {
	return !slices.ContainsFunc(s.seen, func(one snapshot) bool { return look(one.path) != one.state })
}

// isYoung reports whether something changed so shortly before it was read that [Set.IsCurrent]
// would not notice another change.
func (s Set) isYoung() bool { return slices.ContainsFunc(s.seen, snapshot.isYoung) }

// paths are those at which a change shows.
func (s Set) paths() []string {
	all := make([]string, len(s.seen))
	for i, one := range s.seen {
		all[i] = one.path
	}
	return all
}

// Read reads all files of the sources. The problem of a file is in its content. Beside an error
// there is a set as well, for [Watcher.Watch]: a later change may end what is wrong.
func Read(ctx context.Context, sources []environ.Source) (Set, error) {
	return readCurrent(ctx, func() Set { return readOnce(sources, everyName, io.ReadAll) })
}

// ReadDigests is [Read], but the data of each file is the SHA-256 of its content. It is for callers
// that only compare files.
func ReadDigests(ctx context.Context, sources []environ.Source) (Set, error) {
	store := digests()
	return readCurrent(ctx, func() Set { return readOnce(sources, everyName, store) })
}

// ReadDir is [Read] for the files of one directory whose names match.
func ReadDir(ctx context.Context, dir string, match func(name string) bool) (Set, error) {
	sources := []environ.Source{{Kind: environ.Dir, Path: dir}}
	return readCurrent(ctx, func() Set { return readOnce(sources, match, io.ReadAll) })
}

func everyName(string) bool { return true }

// readCurrent reads until nothing changes meanwhile.
func readCurrent(ctx context.Context, read func() Set) (Set, error) {
	for attempt := range mostReads {
		set := read()
		if set.IsCurrent() {
			return set, nil
		}
		if err := wait(ctx, time.Duration(attempt)*pause); err != nil {
			return set, err
		}
	}
	return read(), errors.New("the files change again and again while they are read")
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func readOnce(sources []environ.Source, match func(name string) bool, store storing) Set {
	r := &reader{match: match, store: store, volumes: map[string]*os.File{}}
	defer r.close()
	for _, s := range sources {
		r.set.Contents = append(r.set.Contents, r.read(s))
	}
	return r.set
}

// reader reads one set.
type reader struct {
	set Set
	// match reports whether a file of a directory is read.
	match func(name string) bool
	store storing
	// volumes are the directories to which the links of volumes lead, by the volume's path.
	volumes map[string]*os.File
}

func (r *reader) close() {
	for _, dir := range r.volumes {
		_ = dir.Close() // It was only read.
	}
}

func (r *reader) read(s environ.Source) environ.Content {
	path, err := filepath.Abs(s.Path)
	if err != nil {
		return environ.Content{Err: err}
	}
	var files []environ.File
	if s.Kind == environ.Dir {
		files, err = r.readDir(path)
	} else {
		files, err = r.readKey(path)
	}
	_, rest := environ.FileErrors(err)
	switch {
	case errors.Is(rest, unix.ENOENT), errors.Is(rest, unix.ENOTDIR):
		return environ.Content{Missing: true}
	case err != nil:
		return environ.Content{Files: files, Err: err}
	}
	return environ.Content{Files: files}
}

// readKey reads one file.
func (r *reader) readKey(path string) ([]environ.File, error) {
	dir, name, err := r.locate(path)
	if err != nil {
		return nil, err
	}
	if dir == nil {
		r.set.seen = append(r.set.seen, snapshotOf(path))
	}
	data, err := readFile(dir, name, r.store)
	switch {
	case errors.Is(err, errNotRegular):
		return nil, errors.New("it is not a file")
	case err != nil:
		return nil, err
	}
	return []environ.File{{Name: filepath.Base(path), Data: data}}, nil
}

// locate finds the volume that a path leads into, if that is switched as a whole, and returns the
// directory of its files and the path below.
func (r *reader) locate(path string) (dir *os.File, name string, err error) {
	for volume := filepath.Dir(path); ; volume = filepath.Dir(volume) {
		if isSwitched(volume) {
			name, err := filepath.Rel(volume, path)
			if err != nil {
				return nil, "", err
			}
			dir, err := r.open(volume)
			return dir, strings.TrimPrefix(name, layout.DataLink+"/"), err
		}
		if volume == filepath.Dir(volume) {
			return nil, path, nil
		}
	}
}

// isSwitched reports whether a directory is a volume whose files all change at once.
func isSwitched(dir string) bool {
	_, err := os.Readlink(filepath.Join(dir, layout.DataLink))
	return err == nil
}

// open follows a volume's link, once.
func (r *reader) open(volume string) (*os.File, error) {
	if dir, ok := r.volumes[volume]; ok {
		return dir, nil
	}
	link, before := filepath.Join(volume, layout.DataLink), snapshotOf(volume)
	dir, err := openGeneration(volume)
	switch {
	case errors.Is(err, errLeadsOut): // The directory shows when the link changes.
		r.set.seen = append(r.set.seen, before)
		return nil, err
	case err != nil:
		r.set.seen = append(r.set.seen, snapshot{path: link}) // The files that are there now were not seen.
		return nil, err
	}
	r.volumes[volume] = dir
	r.set.seen = append(r.set.seen, snapshot{link, stateOfOpen(dir), time.Now()})
	return dir, nil
}

// openGeneration opens the directory to which the link of a volume leads.
func openGeneration(volume string) (*os.File, error) {
	top, err := openDir(volume)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	dir, err := openBeneath(top, layout.DataLink, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, errLeadsOut) {
		return nil, fmt.Errorf("%q: %w", layout.DataLink, leadsOut(top, layout.DataLink))
	}
	return dir, err
}

func stateOfOpen(file *os.File) state {
	var s unix.Stat_t
	if unix.Fstat(int(file.Fd()), &s) != nil {
		return state{}
	}
	return stateOf(&s)
}

// readDir reads all files that are directly in a directory.
func (r *reader) readDir(path string) ([]environ.File, error) {
	if isSwitched(path) {
		dir, err := r.open(path)
		if err != nil {
			return nil, err
		}
		return r.readFiles(dir, func(string) {})
	}
	r.set.seen = append(r.set.seen, snapshotOf(path))
	dir, err := openDir(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return r.readFiles(dir, func(name string) {
		found, err := stateBeneath(dir, name)
		if err == nil { // A file outside is not watched either.
			r.set.seen = append(r.set.seen, snapshot{filepath.Join(path, name), found, time.Now()})
		}
	})
}

// readFiles reads the files of a directory, and calls seen with each name before.
func (r *reader) readFiles(dir *os.File, seen func(name string)) ([]environ.File, error) {
	list, err := readNames(dir)
	if err != nil {
		return nil, err
	}
	var files []environ.File
	var errs []error
	for _, name := range list {
		if strings.HasPrefix(name, layout.Reserved) || !r.match(name) {
			continue
		}
		seen(name)
		switch data, err := readFile(dir, name, r.store); {
		case err == nil:
			files = append(files, environ.File{Name: name, Data: data})
		case errors.Is(err, errNotRegular) || errors.Is(err, unix.ENOENT):
			// A directory is not a variable, and neither is a link that leads nowhere.
		default:
			errs = append(errs, &environ.FileError{Name: name, Err: err})
		}
	}
	slices.SortFunc(files, func(a, b environ.File) int { return cmp.Compare(a.Name, b.Name) })
	return files, errors.Join(errs...)
}

// readNames lists a directory from its start, also when another source has listed it before.
func readNames(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return dir.Readdirnames(-1)
}

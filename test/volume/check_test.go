package volume

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

func (c *counts) add(o counts) {
	c.Rounds += o.Rounds
	c.Opens += o.Opens
	c.Reads += o.Reads
	c.Sets += o.Sets
	c.Overtaken += o.Overtaken
	c.Versions += o.Versions
	c.Late += o.Late
	c.Mixed += o.Mixed
	c.FailedOpens += o.FailedOpens
	c.Wrong += o.Wrong
	c.Torn += o.Torn
	c.Symlinks += o.Symlinks
	c.Examples = append(c.Examples, o.Examples[:min(len(o.Examples), max(0, 5-len(c.Examples)))]...)
}

func (c *counts) faults() int { return c.Mixed + c.FailedOpens + c.Wrong + c.Torn + c.Symlinks }

// fault counts one and keeps the first few for the message.
func (c *counts) fault(count *int, format string, args ...any) {
	*count++
	if len(c.Examples) < 3 {
		c.Examples = append(c.Examples, fmt.Sprintf(format, args...))
	}
}

// checkSet compares files and directories that must be of one version, and all of it unless they were overtaken by an
// update, which removes them while they are read.
func (r *reader) checkSet(s *set, prefix string) error {
	r.Sets++
	if !s.current {
		r.Overtaken++
	}
	if err := r.checkEach(s); err != nil {
		return err
	}
	version := -1
	for p, f := range s.files {
		if p == slowFile {
			continue
		}
		if version >= 0 && f.version != version {
			r.fault(&r.Mixed, "%s holds files of versions %d and %d", prefix, version, f.version)
			return nil
		}
		version = f.version
	}
	if version < 0 {
		if s.current && prefix == "." {
			r.fault(&r.Mixed, "the live generation holds nothing")
		}
		return nil
	}
	want, err := r.expected.of(version)
	if err != nil {
		return err
	}
	r.checkDirs(s, want, version)
	if f, ok := s.files[slowFile]; ok && f.version != versionOf(slowFile, version) {
		r.fault(&r.Mixed, "%s of version %d is among files of version %d", slowFile, f.version, version)
	}
	if s.current {
		r.checkComplete(s, want, prefix, version)
	}
	r.note(version)
	return nil
}

func (r *reader) note(version int) {
	if version != r.Last {
		r.Versions++
		r.Last = version
	}
}

// checkEach compares each file with the version in it.
func (r *reader) checkEach(s *set) error {
	for p, f := range s.files {
		want, err := r.expected.of(f.version)
		if err != nil {
			return err
		}
		file, ok := want.files[p]
		switch {
		case !ok:
			r.fault(&r.Torn, "%s is not in version %d, which it says it is of", p, f.version)
		case !bytes.Equal(f.data, file.Data):
			r.fault(&r.Torn, "%s of version %d has %d bytes, or others than its %d", p, f.version, len(f.data), len(file.Data))
		default:
			r.checkStat(p, &f.stat, file.Mode, want.uid)
		}
		if !r.task.Linked && p == "always" {
			r.note(f.version)
		}
	}
	return nil
}

func (r *reader) checkDirs(s *set, want expectation, version int) {
	for p, st := range s.dirs {
		if p != "." && !slices.Contains(want.dirs, p) {
			r.fault(&r.Mixed, "directory %s is not in version %d", p, version)
			continue
		}
		r.checkStat(p, &st, r.task.Owners.dirMode(), want.uid)
	}
}

// checkComplete compares the paths below prefix with those of the version.
func (r *reader) checkComplete(s *set, want expectation, prefix string, version int) {
	count := 0
	for p := range want.files {
		if prefix != "." && p != prefix && !strings.HasPrefix(p, prefix+"/") {
			continue
		}
		count++
		if _, ok := s.files[p]; !ok {
			r.fault(&r.Mixed, "%s of version %d is missing", p, version)
		}
	}
	if len(s.files) > count {
		r.fault(&r.Mixed, "%s has %d files, version %d has %d", prefix, len(s.files), version, count)
	}
}

func (r *reader) checkStat(p string, st *unix.Stat_t, mode fs.FileMode, uid int) {
	if modeOf(st) != mode || int(st.Uid) != uid || int(st.Gid) != r.task.Owners.Reader {
		r.fault(&r.Wrong, "%s has mode %v and owner %d:%d, want %v and %d:%d",
			p, modeOf(st), st.Uid, st.Gid, mode, uid, r.task.Owners.Reader)
	}
}

// modeOf returns the mode bits that can be set.
func modeOf(st *unix.Stat_t) fs.FileMode {
	mode := fs.FileMode(st.Mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{
		unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky,
	} {
		if st.Mode&bit != 0 {
			mode |= flag
		}
	}
	return mode
}

// owners names the readers and the owners of the versions. It goes from the test to its readers.
type owners struct {
	// Reader is the user and group that the readers run as.
	Reader int
	// Alternates makes root own every second version; the readers are then in the group only, as with an fsGroup.
	Alternates bool
}

// epoch is how many versions in a row have the same owner and leave the slow file alone.
const epoch = 4

// slowFile is a file that most versions do not change.
const slowFile = "slow"

// uid returns the owner of version n.
func (o owners) uid(n int) int {
	if o.Alternates && n/epoch%2 == 1 {
		return 0
	}
	return o.Reader
}

// dirMode is that of every directory of every version.
func (o owners) dirMode() fs.FileMode { return fs.ModeSetgid | 0o755 }

// version returns the tree of version n. Names, sizes, modes and owners change with n; a name is a file in some versions
// and a directory in others.
func (o owners) version(n int) (tree.Tree, error) {
	paths := []string{"always", "big", "d/always", "d/e/f/deep", slowFile, fmt.Sprintf("only-%d", n%5)}
	if n%2 == 1 {
		paths = append(paths, "odd", "d/odd")
	}
	if n%3 == 0 {
		paths = append(paths, "third/x", "third/y")
	}
	switch n % 4 {
	case 0:
		paths = append(paths, "flip", "d/flop/one")
	case 1:
		paths = append(paths, "flip/one", "flip/two/deep", "d/flop")
	case 2:
		paths = append(paths, "flip/two", "d/flop/two/deep")
	}
	files := make([]tree.File, 0, len(paths))
	for _, p := range paths {
		files = append(files, o.file(p, n))
	}
	t, err := tree.New(files)
	t.DirMode, t.UID, t.GID = o.dirMode(), o.uid(n), o.Reader
	return t, err
}

// file returns a file of version n.
func (o owners) file(p string, n int) tree.File {
	n = versionOf(p, n)
	h := fnv.New32()
	fmt.Fprintf(h, "%s %d", p, n)
	random := int(h.Sum32())
	// All of these can be read by the owner, or by the group as well.
	modes := []fs.FileMode{0o400, 0o600, 0o644, 0o500, 0o755, 0o777, 0o444, 0o604}
	mode := modes[random%len(modes)]
	if o.uid(n) != o.Reader {
		mode |= 0o440
	}
	size := random / 8 % 500
	if path.Base(p) == "big" {
		size = random / 8 % 20000
	}
	data := fmt.Appendf(nil, "%d %s ", n, p)
	return tree.File{Path: p, Data: append(data, bytes.Repeat([]byte{byte('a' + n%26)}, size)...), Mode: mode}
}

// versionOf returns the version that wrote what the file holds in version n.
func versionOf(p string, n int) int {
	if p == slowFile {
		return n - n%epoch
	}
	return n
}

// expectation is a version in the form that readers compare with.
type expectation struct {
	files map[string]tree.File
	dirs  []string
	uid   int
}

// expectations computes versions once. It keeps the newest few.
type expectations struct {
	owners owners
	known  map[int]expectation
}

func (e *expectations) of(n int) (expectation, error) {
	if x, ok := e.known[n]; ok {
		return x, nil
	}
	t, err := e.owners.version(n)
	if err != nil {
		return expectation{}, err
	}
	x := expectation{files: make(map[string]tree.File, len(t.Files)), dirs: t.Dirs(), uid: t.UID}
	for _, f := range t.Files {
		x.files[f.Path] = f
	}
	if len(e.known) > 2*epoch {
		delete(e.known, slices.Min(slices.Collect(maps.Keys(e.known))))
	}
	e.known[n] = x
	return x, nil
}

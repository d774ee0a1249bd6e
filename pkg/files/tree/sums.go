package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io/fs"
	"slices"
	"weak"
)

// Sums are the digests of a tree's files, for the next tree of the same volume: bytes that are
// still in the same place in memory are not read again. They do not keep these bytes in memory.
// The zero value is for a volume without an earlier tree.
type Sums struct {
	files []fileSum
	group int
}

// fileSum is a file of the tree, and the digest of its bytes.
type fileSum struct {
	path   string
	source sum // Of [File.Source], which can be long.
	mode   fs.FileMode
	user   int
	sum    sum
	at     weak.Pointer[byte] // The first byte; nil for few bytes, which are read again.
}

// sum is a digest of bytes.
type sum struct {
	size int
	of   [sha256.Size]byte
}

// Digest returns «sha256:…» over everything a reader of the volume could see: paths, bytes, modes
// and owners, and over where files come from. Files that share their bytes, as those of one key do,
// cost them once.
func (t Tree) Digest() string { return t.digest(places{}) }

// DigestAfter is [Tree.Digest] for a tree that comes after another one, with the sums of both.
func (t Tree) DigestAfter(before Sums) (string, Sums) {
	known := before.places()
	digest := t.digest(known)
	now := Sums{files: make([]fileSum, len(t.Files)), group: t.GID}
	for i, f := range t.Files {
		now.files[i] = fileSum{
			path: f.Path, source: sumOfSource(f.Source), mode: f.Mode, user: t.UserOf(f), sum: known.sumOf(f.Data),
		}
		if len(f.Data) > shortData {
			now.files[i].at = weak.Make(&f.Data[0])
		}
	}
	return digest, now
}

// sumOfSource returns the digest of a [File.Source]. Most files have none, and a zero digest.
func sumOfSource(source string) sum {
	if source == "" {
		return sum{}
	}
	return sum{size: len(source), of: sha256.Sum256([]byte(source))}
}

// HaveSame reports whether the file at a path is the same in the other tree: bytes, mode, owner
// and source.
func (s Sums) HaveSame(other Sums, path string) bool {
	mine, theirs := s.of(path), other.of(path)
	return s.group == other.group && mine != nil && theirs != nil &&
		mine.source == theirs.source && mine.mode == theirs.mode && mine.user == theirs.user && mine.sum == theirs.sum
}

// of returns the file at a path; nil for none.
func (s Sums) of(path string) *fileSum {
	i, found := slices.BinarySearchFunc(s.files, path, func(f fileSum, path string) int {
		return comparePaths(f.path, path)
	})
	if !found {
		return nil
	}
	return &s.files[i]
}

// places returns the bytes that are still in memory.
func (s Sums) places() places {
	known := make(places, len(s.files))
	for _, f := range s.files {
		if at := f.at.Value(); at != nil {
			known[at] = f.sum
		}
	}
	return known
}

// digest is [Tree.Digest]. It adds what it reads to the places.
func (t Tree) digest(known places) string {
	h := sha256.New()
	if len(t.MountPoints) > 0 {
		writeNumbers(h, int64(len(t.MountPoints)))
	}
	for _, point := range t.MountPoints {
		writeNumbers(h, int64(len(point)))
		h.Write([]byte(point))
	}
	writeNumbers(h, int64(t.DirMode), int64(t.UID), int64(t.GID), int64(len(t.Files)))
	for _, f := range t.Files {
		writeNumbers(h, int64(f.Mode), int64(t.UserOf(f)), int64(len(f.Path)), int64(len(f.Source)), int64(len(f.Data)))
		h.Write([]byte(f.Path))
		h.Write([]byte(f.Source))
		if len(f.Data) <= shortData {
			h.Write(f.Data)
			continue
		}
		s := known.sumOf(f.Data)
		h.Write(s.of[:])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// shortData is how many bytes are not worth being remembered.
const shortData = 1 << 10

// places remembers the digests of bytes by where they are in memory.
type places map[*byte]sum

// sumOf returns the digest of data.
func (p places) sumOf(data []byte) sum {
	if len(data) <= shortData {
		return sum{size: len(data), of: sha256.Sum256(data)}
	}
	at := &data[0]
	if known, found := p[at]; found && known.size == len(data) {
		return known
	}
	p[at] = sum{size: len(data), of: sha256.Sum256(data)}
	return p[at]
}

// writeNumbers writes each number with a fixed size, so that no two trees make the same bytes.
func writeNumbers(h hash.Hash, numbers ...int64) {
	var buf [8]byte
	for _, n := range numbers {
		binary.BigEndian.PutUint64(buf[:], uint64(n)) //nolint:gosec // Only the bits count.
		h.Write(buf[:])
	}
}

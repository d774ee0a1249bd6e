package environ

import (
	"errors"
	"fmt"
	"strings"
)

// MaxFile is the size in bytes of the largest file that is read. It is more than the kernel takes
// for a whole environment: a larger file is there by mistake.
const MaxFile = 8 << 20

// ErrTooLarge is the error of a file that is not read, because it is larger than [MaxFile].
const ErrTooLarge = unusable("it is larger than 8 MiB, the most that is read of a file")

// unusable is the reason why a file cannot be a variable.
type unusable string

// Error is the reason.
func (u unusable) Error() string { return string(u) }

// Skip is a source, and those of its files that cannot be variables for the same reason.
type Skip struct {
	Source Source
	// Files are in the order of the source. One that was too large has no data.
	Files  []File
	Reason string
}

// String names the files. It has no byte of them.
func (s Skip) String() string {
	quoted := make([]string, len(s.Files))
	for i, f := range s.Files {
		quoted[i] = fmt.Sprintf("%q", f.Name)
	}
	return fmt.Sprintf("%s: skipped %s: %s", s.Source, strings.Join(quoted, ", "), s.Reason)
}

// skip records that a file is skipped if the error is that the file cannot be a variable. It
// returns every other error.
func (b *builder) skip(s Source, f File, err error) error {
	reason, ok := errors.AsType[unusable](err)
	if !ok {
		return err
	}
	for i := range b.skipped {
		if other := &b.skipped[i]; other.Source == s && other.Reason == string(reason) {
			other.Files = append(other.Files, f)
			return nil
		}
	}
	b.skipped = append(b.skipped, Skip{Source: s, Files: []File{f}, Reason: string(reason)})
	return nil
}

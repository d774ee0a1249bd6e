package atomicdir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// keptPrefix starts the names of inodes that an [InPlace] keeps, empty, for files that may come
// back.
const keptPrefix = "..kept-"

// MaxKept is how many inodes an [InPlace] keeps. When there are more, the oldest go.
const MaxKept = 256

// keptName returns the name under which the inode of a file waits. A path may be too long for one.
func keptName(file string) string {
	sum := sha256.Sum256([]byte(file))
	return keptPrefix + hex.EncodeToString(sum[:])
}

// lookKept finds the inodes that wait. A name that is no regular file, or that is another name of a
// file that has come back, goes with what interrupted writes have left.
func (w *plainWrite) lookKept() error {
	w.kept = map[string]info{}
	if !w.keepsInodes {
		return nil
	}
	listed := map[uint64]bool{}
	for _, found := range w.found {
		listed[found.inode] = true
	}
	var others []string
	for _, name := range w.reserved {
		if !strings.HasPrefix(name, keptPrefix) {
			others = append(others, name)
			continue
		}
		found, err := w.stat(name)
		if err != nil {
			return err
		}
		if !found.isFile() || listed[found.inode] {
			others = append(others, name)
			continue
		}
		w.kept[name] = found
	}
	w.reserved = others
	return nil
}

// emptyKept takes the bytes of inodes that a killed writer had no time to empty.
func (w *plainWrite) emptyKept() error {
	for _, name := range slices.Sorted(maps.Keys(w.kept)) {
		if w.kept[name].size == 0 {
			continue
		}
		if err := w.truncate(name, 0); err != nil {
			return err
		}
	}
	return nil
}

// keep takes a file out of what is listed. Its inode waits under another name, and containers that
// have mounted the file see it empty.
func (w *plainWrite) keep(file string) error {
	name := keptName(file)
	// A killed writer may have left the name for the same inode, and then a rename does nothing.
	if i, found := slices.BinarySearch(w.reserved, name); found {
		if err := w.remove(name); err != nil {
			return err
		}
		w.reserved = slices.Delete(w.reserved, i, i+1)
	}
	if err := w.doIn("rename", file, func(parent fd, base string) error {
		return unix.Renameat(int(parent), base, int(w.fd), name)
	}); err != nil {
		return err
	}
	w.kept[name] = w.found[file]
	delete(w.found, file)
	return w.truncate(name, 0)
}

// keepBelow keeps the files at a path and below it, which is about to go.
func (w *plainWrite) keepBelow(name string) error {
	if !w.keepsInodes {
		return nil
	}
	for _, file := range slices.Concat([]string{name}, w.namesBelow(name)) {
		if w.found[file].isFile() {
			if err := w.keep(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// discardKept removes name with everything below it, and keeps the inodes of files.
func (w *plainWrite) discardKept(name string) error {
	if err := w.keepBelow(name); err != nil {
		return err
	}
	if _, ok := w.found[name]; !ok {
		return nil
	}
	return w.discard(name)
}

// returns reports whether the inode of a file waits, under which name.
func (w *plainWrite) returns(file string) (name string, ok bool) {
	name = keptName(file)
	_, ok = w.kept[name]
	return name, ok
}

// stageReturning puts the inode of a file that waits in the place that the file has among the
// parts, which are renamed into place, and gives it its content. A container that has mounted the
// file sees the content at once.
func (w *plainWrite) stageReturning(f tree.File, staged string) error {
	kept, ok := w.returns(f.Path)
	if !ok {
		return nil
	}
	w.revived = append(w.revived, kept)
	return runAll(
		func() error { return w.remove(staged) },
		func() error {
			return w.doIn("link", staged, func(parent fd, base string) error {
				return unix.Linkat(int(w.fd), kept, int(parent), base, 0)
			})
		},
		func() error { return w.withFile(staged, func(file fd) error { return w.fill(file, f) }) },
	)
}

// fill gives an empty file its owner and mode, so that nobody else can read the bytes, its source,
// which may be another one than it had, and then the bytes.
func (w *plainWrite) fill(file fd, f tree.File) error {
	return runAll(
		func() error { return w.chownOpen(f.Path, file, ownerOfFile(f, w.want)) },
		func() error { return w.chmodOpen(f.Path, file, f.Mode) },
		func() error { return w.markOpen(f.Path, file, f.Source) },
		func() error { return w.do("write", f.Path, func() error { return file.write(f.Data) }) },
	)
}

// forgetRevived empties the inodes of files that were to come back, after a Write that has failed.
func (w *plainWrite) forgetRevived() error {
	var errs []error
	for _, name := range w.revived {
		errs = append(errs, w.truncate(name, 0))
	}
	return errors.Join(errs...)
}

// dropKept removes the names of inodes that are listed again, and the oldest of too many.
func (w *plainWrite) dropKept() error {
	var errs []error
	for _, name := range w.revived {
		errs = append(errs, w.remove(name))
		delete(w.kept, name)
	}
	names := slices.SortedFunc(maps.Keys(w.kept), func(a, b string) int {
		return changeTime(w.kept[a]).Compare(changeTime(w.kept[b]))
	})
	for _, name := range names[:max(0, len(names)-MaxKept)] {
		errs = append(errs, w.remove(name))
	}
	return errors.Join(errs...)
}

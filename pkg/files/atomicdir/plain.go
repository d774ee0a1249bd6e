package atomicdir

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Replace writes plain files and directories, no symlinks. A changed file is replaced by rename, so
// that anyone who opens it gets all of the old or all of the new bytes; several files change one
// after the other.
//
// A Write takes these steps, of which 5 and 9 are for [InPlace] alone:
//
//  1. Read everything that is in the root, and make the mount points that are missing.
//  2. Compare it with the tree, file by file: bytes, modes, owners.
//  3. Remove what interrupted writes have left, so that it takes no room from this one.
//  4. Give the root its owner and mode.
//  5. Reserve the space by which files will grow in place.
//  6. Write the files that differ, and whole directories that are missing, under other names. From
//     here on nothing needs space.
//  7. Give the directories that stay their owner and mode.
//  8. Rename what was written into place; a directory in the place of a file, or a file of a
//     directory, goes first.
//  9. Rewrite files in place: owner and mode, all bytes, then the length. A reader sees old and new
//     bytes mixed, and zeros behind the new length of a file that gets shorter, but never less than
//     the shorter of both.
//  10. Remove whatever else does not belong here. An [InPlace] keeps the inodes of files, empty.
//
// If a step up to 6 fails, what was made is removed, except for mount points.
type Replace struct {
	// Room, if set, is asked before files are written, when left-overs are gone. Its error ends the
	// Write.
	Room func() error

	hook hook
}

// Write is [Writer].
func (r Replace) Write(root *os.File, t tree.Tree) (changed bool, err error) {
	return write(root, r.hook, &plainWrite{want: t, room: r.Room})
}

// InPlace is [Replace] with one difference: a file whose bytes, mode or owner change stays the same
// inode, which a container that mounts this one file sees too. It is the only writer that can show
// a file half changed. Files that come new, or take the place of something else, come by rename.
//
// A file that goes leaves its inode, empty and under a reserved name. When the file comes back, a
// container that has mounted it sees the new content.
type InPlace struct {
	// Room is that of a [Replace].
	Room func() error

	hook hook
}

// Write is [Writer].
func (p InPlace) Write(root *os.File, t tree.Tree) (changed bool, err error) {
	return write(root, p.hook, &plainWrite{want: t, room: p.Room, keepsInodes: true})
}

// plainWrite is one Write of a [Replace] or an [InPlace].
type plainWrite struct {
	dir
	want tree.Tree
	room func() error
	// keepsInodes is what makes the difference between the two writers.
	keepsInodes bool
	// found is everything in the root but reserved names. Anything that is removed is taken out;
	// what is made is not put in.
	found entries
	// names are the paths of what was found, sorted: what is below a directory stands together.
	names []string
	// reserved are the root's reserved names, sorted, of a killed writer or of an Atomic.
	reserved []string
	// parts are what comes by rename; parts[i] waits as tempName(i).
	parts []part
	// rewrites are the files that change in place.
	rewrites []rewrite
	// kept are the inodes that wait for their files, by the names under which they wait; revived
	// are the names of those whose files come back.
	kept    map[string]info
	revived []string
	// reservations are those of them for which space was asked.
	reservations []rewrite
}

// part is what one rename puts into place: a file, or a directory that is missing with all its
// files.
type part struct {
	path  string
	files []tree.File
}

func (p part) isDir() bool { return p.files[0].Path != p.path }

func write(root *os.File, h hook, w *plainWrite) (changed bool, err error) {
	if err := check(w.want); err != nil {
		return false, err
	}
	w.dir = newDir(root, h)
	if err := w.prepare(); err != nil {
		return w.made, errors.Join(err, w.undo())
	}
	if err := w.finish(); err != nil {
		return w.made, errors.Join(err, w.removeTemps())
	}
	return w.made, nil
}

func (w *plainWrite) prepare() error {
	return runSteps(w,
		step[*plainWrite]{"read the volume", (*plainWrite).look},                        // 1
		step[*plainWrite]{"make mount points", (*plainWrite).makeDirs},                  // 1
		step[*plainWrite]{"compare the files", (*plainWrite).compare},                   // 2
		step[*plainWrite]{"remove left-overs", (*plainWrite).sweep},                     // 3
		step[*plainWrite]{"set owner and mode of the volume", (*plainWrite).settleRoot}, // 4
		step[*plainWrite]{"find room", (*plainWrite).findRoom},
		step[*plainWrite]{"reserve space", (*plainWrite).reserve},     // 5
		step[*plainWrite]{"write the new files", (*plainWrite).stage}, // 6
	)
}

func (w *plainWrite) finish() error {
	return runSteps(w,
		step[*plainWrite]{"set owners and modes of directories", (*plainWrite).settleDirs}, // 7
		step[*plainWrite]{"show the new files", (*plainWrite).install},                     // 8
		step[*plainWrite]{"rewrite files in place", (*plainWrite).rewriteFiles},            // 9
		step[*plainWrite]{"clean up", (*plainWrite).clean},                                 // 10
	)
}

// look is step 1.
func (w *plainWrite) look() error {
	list, err := w.namesAgain()
	if err != nil {
		return err
	}
	w.found = make(entries, len(list))
	for _, name := range list {
		if isReserved(name) {
			w.reserved = append(w.reserved, name)
			continue
		}
		if err := w.found.add(w.fd, name, name); err != nil {
			return err
		}
	}
	w.names = slices.Sorted(maps.Keys(w.found))
	slices.Sort(w.reserved)
	return w.lookKept()
}

// compare is step 2.
func (w *plainWrite) compare() error {
	for _, f := range w.want.Files {
		old := w.found[f.Path]
		if !old.isFile() {
			w.addToPart(f)
			continue
		}
		sameBytes, sameSource := compareFile(w.fd, old, f)
		r := rewrite{file: f, old: old, sameBytes: sameBytes}
		r.right = sameSource && old.has(f.Mode, ownerOfFile(f, w.want))
		switch {
		case r.sameBytes && r.right:
		case w.keepsInodes:
			w.rewrites = append(w.rewrites, r)
		default:
			w.addToPart(f)
		}
	}
	return nil
}

// addToPart adds f to what comes by rename: alone, or with the topmost of its directories that is
// missing. Files come sorted, so those of one directory come together.
func (w *plainWrite) addToPart(f tree.File) {
	top := w.topmostMissing(f.Path)
	if n := len(w.parts); n > 0 && w.parts[n-1].path == top {
		w.parts[n-1].files = append(w.parts[n-1].files, f)
		return
	}
	w.parts = append(w.parts, part{path: top, files: []tree.File{f}})
}

func (w *plainWrite) topmostMissing(file string) string {
	top := file
	for d := tree.Parent(file); d != "."; d = tree.Parent(d) {
		if !w.found.isDir(d) {
			top = d
		}
	}
	return top
}

// sweep is step 3. Anything that cannot be removed does not stop the update; step 10 tries again
// and returns the error. Links and generations of an [Atomic] stay until then, because names may
// lead there.
func (w *plainWrite) sweep() error {
	w.reserved = slices.DeleteFunc(w.reserved, func(name string) bool {
		return strings.HasPrefix(name, tempPrefix) && w.remove(name) == nil
	})
	return w.emptyKept()
}

// settleRoot is step 4.
func (w *plainWrite) settleRoot() error {
	found, err := w.statSelf()
	if err != nil {
		return err
	}
	return w.correctOwnerAndMode(found, w.want)
}

// findRoom comes before anything that needs space.
func (w *plainWrite) findRoom() error {
	if len(w.parts) == 0 && len(w.rewrites) == 0 {
		return nil
	}
	return askForRoom(w.room)
}

// stage is step 6.
func (w *plainWrite) stage() error {
	for i, p := range w.parts {
		if err := w.stagePart(tempName(i), p); err != nil {
			return err
		}
		for _, f := range p.files {
			if err := w.stageReturning(f, tempName(i)+strings.TrimPrefix(f.Path, p.path)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *plainWrite) stagePart(temp string, p part) error {
	if !p.isDir() {
		return w.create(temp, p.files[0], w.want)
	}
	t := w.want
	t.Files = p.files
	return w.createSubtree(temp, t, len(p.path)+1, nil)
}

// settleDirs is step 7.
func (w *plainWrite) settleDirs() error {
	for _, d := range w.want.Dirs() {
		if !w.found.isDir(d) || w.found[d].has(w.want.ModeOfDir(d), ownerOf(w.want)) {
			continue
		}
		if err := w.settleDir(d); err != nil {
			return err
		}
	}
	return nil
}

func (w *plainWrite) settleDir(name string) error {
	opened, err := w.openDir(name)
	if err != nil {
		return err
	}
	return errors.Join(w.setOwnerAndMode(name, opened, w.want), opened.close())
}

// install is step 8.
func (w *plainWrite) install() error {
	for i, p := range w.parts {
		if _, ok := w.found[p.path]; ok && (p.isDir() || w.found.isDir(p.path)) {
			if err := w.discardKept(p.path); err != nil {
				return err
			}
		}
		if err := w.rename(tempName(i), p.path); err != nil {
			return err
		}
	}
	return nil
}

// discard removes name for good, with everything below it.
func (w *plainWrite) discard(name string) error {
	if err := w.remove(name); err != nil {
		return err
	}
	for _, p := range w.namesBelow(name) {
		delete(w.found, p)
	}
	delete(w.found, name)
	return nil
}

// namesBelow returns the part of names that is below a directory. Some of it may be gone.
func (w *plainWrite) namesBelow(name string) []string {
	start, _ := slices.BinarySearch(w.names, name+"/")
	end, _ := slices.BinarySearch(w.names, name+"0") // The byte after "/".
	return w.names[start:end]
}

// clean is step 10. It goes on after an error, so that one thing that cannot be removed does not
// keep others.
func (w *plainWrite) clean() error {
	wanted := make(map[string]bool, len(w.want.Files))
	for _, d := range w.want.Dirs() {
		wanted[d] = true
	}
	for _, f := range w.want.Files {
		wanted[f.Path] = true
	}
	var errs []error
	for _, name := range w.names {
		if _, ok := w.found[name]; ok && !wanted[name] {
			errs = append(errs, w.discardKept(name))
		}
	}
	errs = append(errs, w.dropKept())
	for _, name := range w.reserved {
		errs = append(errs, w.remove(name))
	}
	return errors.Join(errs...)
}

// undo takes back what the steps up to 6 have made, as far as they got.
func (w *plainWrite) undo() error {
	return errors.Join(w.release(), w.forgetRevived(), w.removeTemps())
}

// removeTemps removes the parts that were not put into place.
func (w *plainWrite) removeTemps() error {
	var errs []error
	for i := range w.parts {
		errs = append(errs, w.remove(tempName(i)))
	}
	return errors.Join(errs...)
}

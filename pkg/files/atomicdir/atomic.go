package atomicdir

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Atomic writes the layout of the kubelet's own volumes. The files lie in a directory named by the
// time in UTC, the generation; ..data is a symlink to it; and each first path element is a symlink
// to itself below ..data:
//
//	conf.d -> ..data/conf.d
//	..data -> ..2026_01_02_15_04_05.678901234
//	..2026_01_02_15_04_05.678901234/conf.d/app.yaml
//
// A mount point is a directory in the root, and so are the directories above it. The names beside
// it are links there, in the place of a link for the whole directory:
//
//	conf.d/app.yaml -> ../..data/conf.d/app.yaml
//	conf.d/extra
//
// One rename of ..data changes all files at once. A Write takes these steps:
//
//  1. Read what is in the root and which generation is live, unless both are known.
//  2. Compare it with the tree: bytes, modes, owners, directories, nothing missing and nothing too
//     much. If it is equal, 5, 6 and 9 are left out, and the rest still puts right what else is
//     wrong. If it is not, and it is too early for another generation, nothing is done.
//  3. Remove what interrupted writes have left, so that it takes no room from this one. Generations
//     that were live go with 11, unless there is no room.
//  4. Give the root its owner and mode.
//  5. Write the new generation. Files that do not change may be links to those of the live one.
//  6. Link it as ..data_tmp.
//  7. Make the mount points that are missing, and the links for new names, under other names. From
//     here on nothing needs space.
//  8. Remove the names that will go: none is ever listed that leads nowhere.
//  9. Rename ..data_tmp to ..data.
//  10. Rename the new names into place.
//  11. Remove the old generation, unless it has a grace, and whatever else does not belong here.
//
// If a step up to 9 fails, what was made is removed and the names are put back; mount points stay.
type Atomic struct {
	// Grace is for generations that were replaced. A Write removes those whose grace is over, and
	// all when the file system has no room otherwise.
	Grace Grace
	// Room, if set, is asked before a new generation is written, when left-overs are gone. Its
	// error ends the Write.
	Room func() error
	// Differs means that the live files are known to be others than the tree's. They are not
	// compared then.
	Differs bool
	// IsNew means that the directory is empty and that nobody else sees it. It is not listed then,
	// and names get no temporary ones.
	IsNew bool
	// Known, if set, is what the last Write left in the directory. With Differs the directory is
	// not listed again while that is still true. Each Write stores what it left.
	Known *Known
	// Keeps, if set, reports whether the live files are known to have the same file at a path as
	// the tree: bytes, mode and owner. With Differs, and while what is Known is true, such a file
	// is not written again: the new generation has the same inode.
	Keeps func(path string) bool

	hook hook
}

// Write is [Writer].
func (a Atomic) Write(root *os.File, t tree.Tree) (changed bool, err error) {
	if err := check(t); err != nil {
		return false, err
	}
	changed, err = a.write(root, t, a.Grace)
	if a.Grace.Time > 0 && errors.Is(err, unix.ENOSPC) {
		return a.write(root, t, Grace{}) // Older generations make room; the one that is replaced now has its grace.
	}
	return changed, err
}

// write gives grace to generations that were replaced before, and the writer's own to the one that
// it replaces.
func (a Atomic) write(root *os.File, t tree.Tree, grace Grace) (changed bool, err error) {
	w := &atomicWrite{
		dir: newDir(root, a.hook), want: t, room: a.Room, wanted: t.Names(), dirs: t.FixedDirs(), grace: grace,
		keepsLast: a.Grace.Time > 0,
		differs:   a.Differs, isNew: a.IsNew,
		known: a.Known, now: time.Now(), keeps: a.Keeps,
	}
	if w.known == nil {
		w.known = &Known{}
	}
	if err := w.prepare(); err != nil {
		return w.made, errors.Join(err, w.undo())
	}
	if err := w.finish(); err != nil {
		return w.made, err
	}
	if a.Known != nil && len(w.dirs) == 0 { // A change in a directory does not show in the root.
		w.learn()
	}
	return w.made, nil
}

// atomicWrite is one Write of an [Atomic].
type atomicWrite struct {
	dir
	want tree.Tree
	room func() error
	// wanted are the names of links that users shall see, sorted; dirs are the mount points and the
	// directories above them.
	wanted []string
	dirs   []tree.Dir
	grace  Grace
	// keepsLast leaves the generation that is replaced in its place.
	keepsLast bool
	// differs means that the live generation is not what is wanted.
	differs bool
	// isNew means that the root is empty and that nobody sees it.
	isNew bool
	known *Known
	// before is what was known.
	before Known
	// isAsLeft means that nothing has changed in the root since that.
	isAsLeft bool
	now      time.Time
	// keeps is [Atomic.Keeps].
	keeps func(path string) bool
	// root is what the directory itself was.
	root info
	// spared are replaced generations that have grace.
	spared map[string]bool
	// found is what was in the root, and in the directories that hold links. Anything that is
	// removed is taken out; what is made is not put in.
	found entries
	// order has the names that were found, sorted, so that the same is always done in the same
	// order.
	order []string
	// live is the generation ..data leads to, empty if it leads to none.
	live string
	// isEqual means that the live generation is what is wanted.
	isEqual bool
	// next is the new generation, once this Write has made its directory.
	next string
	// staged are the names whose links wait as tempName(i).
	staged []string
	// dropped are the links removed in step 8.
	dropped []link
}

func (w *atomicWrite) prepare() error {
	return runSteps(w,
		step[*atomicWrite]{"read the volume", (*atomicWrite).look},                         // 1
		step[*atomicWrite]{"compare the live files", (*atomicWrite).compare},               // 2
		step[*atomicWrite]{"remove left-overs", (*atomicWrite).sweep},                      // 3
		step[*atomicWrite]{"set owner and mode of the volume", (*atomicWrite).correctRoot}, // 4
		step[*atomicWrite]{"write the new files", (*atomicWrite).writeGeneration},          // 5
		step[*atomicWrite]{"link the new files", (*atomicWrite).linkGeneration},            // 6
		step[*atomicWrite]{"make mount points", (*atomicWrite).makeDirs},                   // 7
		step[*atomicWrite]{"make new names", (*atomicWrite).stageNames},                    // 7
		step[*atomicWrite]{"remove old names", (*atomicWrite).dropNames},                   // 8
		step[*atomicWrite]{"switch to the new files", (*atomicWrite).swap},                 // 9
	)
}

func (w *atomicWrite) finish() error {
	return runSteps(w,
		step[*atomicWrite]{"show new names", (*atomicWrite).addNames}, // 10
		step[*atomicWrite]{"clean up", (*atomicWrite).clean},          // 11
	)
}

// look is step 1.
func (w *atomicWrite) look() error {
	known := *w.known
	w.before, *w.known = known, Known{}
	var err error
	if w.root, err = w.statSelf(); err != nil || w.isNew {
		return err
	}
	w.isAsLeft = w.differs && len(w.dirs) == 0 && known.isFor(w.root)
	if w.isAsLeft && known.links == digestOf(w.wanted, ownerOf(w.want)) {
		w.recall(known)
		return nil
	}
	if err := w.list(); err != nil {
		return err
	}
	if target := w.found[dataLink].target; isGeneration(target) && w.found.isDir(target) {
		w.live = target
	}
	return nil
}

// list finds what is in the root, and in the directories in which links belong.
func (w *atomicWrite) list() (err error) {
	if w.order, err = w.namesAgain(); err != nil {
		return err
	}
	w.found = make(entries, len(w.order))
	for _, name := range w.order {
		if w.found[name], err = w.stat(name); err != nil {
			return err
		}
	}
	for _, d := range w.dirs { // Parents come first.
		if err := w.listDir(d.Path); err != nil {
			return err
		}
	}
	slices.Sort(w.order)
	return nil
}

// left returns the names that were found and are still there, sorted.
func (w *atomicWrite) left() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range w.order {
			if _, ok := w.found[name]; ok && !yield(name) {
				return
			}
		}
	}
}

// compare is step 2.
func (w *atomicWrite) compare() error {
	w.isEqual = w.live != "" && !w.differs && equalsTree(w.fd, w.live, w.want, 0)
	return w.spare()
}

// sweep is step 3. Anything that cannot be removed does not stop the update; step 11 tries again
// and returns the error.
func (w *atomicWrite) sweep() error {
	for name := range w.left() {
		if isReserved(name) && name != dataLink && name != w.live && !w.spared[name] && !w.isRetired(name) {
			_ = w.discard(name)
		}
	}
	return nil
}

// isRetired reports whether name is a generation that was live, and may go when the new one is
// there.
func (w *atomicWrite) isRetired(name string) bool {
	return w.keepsLast && w.grace.Time > 0 && isGeneration(name) && name < w.live
}

// makeRoom removes the generations that are retired, and reports whether there were any.
func (w *atomicWrite) makeRoom() bool {
	made := false
	for name := range w.left() {
		if w.isRetired(name) && !w.spared[name] {
			made = w.discard(name) == nil || made
		}
	}
	return made
}

// discard removes an entry of the root for good.
func (w *atomicWrite) discard(name string) error {
	unlink := fd.unlink
	if w.found.isDir(name) {
		unlink = fd.unlinkDir
	}
	if err := w.removeBy(unlink, name); err != nil {
		return err
	}
	delete(w.found, name)
	return nil
}

// correctRoot is step 4.
func (w *atomicWrite) correctRoot() error {
	return w.correctOwnerAndMode(w.root, w.want)
}

// writeGeneration is step 5.
func (w *atomicWrite) writeGeneration() error {
	if w.isEqual {
		return nil
	}
	err := askForRoom(w.room)
	if err != nil && w.makeRoom() {
		err = askForRoom(w.room)
	}
	if err != nil {
		return err
	}
	return w.makeGeneration(w.freeName())
}

// makeGeneration makes the new generation. It is w.next only once its directory is made by this
// Write: [atomicWrite.undo] removes that one, and no other that has the name.
func (w *atomicWrite) makeGeneration(name string) error {
	if err := w.mkdir(name); err != nil {
		return err
	}
	w.next = name
	from := w.liveFiles()
	return errors.Join(w.writeSubtree(name, w.want, 0, from), from.close())
}

// freeName returns a name for a generation that nothing in the root has: two writes may read the
// same time.
func (w *atomicWrite) freeName() string {
	for at := w.now; ; at = at.Add(time.Nanosecond) {
		name := generationName(at)
		if _, isTaken := w.found[name]; !isTaken {
			return name
		}
	}
}

// generationName returns the name for a time, to the nanosecond. Later names sort behind earlier
// ones.
func generationName(now time.Time) string {
	now = now.UTC()
	return now.Format("..2006_01_02_15_04_05.") + fmt.Sprintf("%09d", now.Nanosecond())
}

// isGeneration reports whether name is a generation: a year follows the dots, unlike in ..data_tmp.
func isGeneration(name string) bool {
	return len(name) > 2 && isReserved(name) && name[2] >= '0' && name[2] <= '9' && fs.ValidPath(name)
}

// linkGeneration is step 6.
func (w *atomicWrite) linkGeneration() error {
	if w.isEqual {
		return nil
	}
	return w.symlink(w.next, w.temporary(dataLink, dataTemp), ownerOf(w.want), w.want.DirMode)
}

// temporary returns the name under which a link waits for its rename. In a new directory that is
// its final name: nobody sees it.
func (w *atomicWrite) temporary(name, temp string) string {
	if w.isNew {
		return name
	}
	return temp
}

// swap is step 9. A rename cannot replace a directory, so swap removes a ..data that is one; no
// writer made it.
func (w *atomicWrite) swap() error {
	if w.isEqual || w.isNew {
		return nil
	}
	if w.found.isDir(dataLink) {
		if err := w.remove(dataLink); err != nil {
			return err
		}
	}
	return w.rename(dataTemp, dataLink)
}

// undo takes back what the steps before the swap have made, as far as they got.
func (w *atomicWrite) undo() error {
	var errs []error
	if w.next != "" {
		errs = append(errs, w.remove(w.temporary(dataLink, dataTemp)), w.remove(w.next))
	}
	for i, name := range w.staged {
		errs = append(errs, w.remove(w.temporary(name, tempName(i))))
	}
	for _, l := range w.dropped {
		if _, err := w.stat(l.name); err == nil {
			continue
		}
		errs = append(errs, w.symlink(l.target, l.name, l.owner, w.want.DirMode))
	}
	return errors.Join(errs...)
}

// clean is step 11. It goes on after an error, so that one thing that cannot be removed does not
// keep others.
func (w *atomicWrite) clean() error {
	keep := w.next
	if w.isEqual {
		keep = w.live
	}
	var errs []error
	for name := range w.left() {
		if name == dataLink || name == keep || w.isWanted(name) || w.spared[name] || w.keepsLast && name == w.live {
			continue
		}
		if name == w.live {
			if err := w.rename(name, tempPrefix+"old"); err == nil {
				delete(w.found, name)
				name = tempPrefix + "old"
			}
		}
		errs = append(errs, w.discard(name))
	}
	return errors.Join(errs...)
}

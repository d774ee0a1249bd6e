package atomicdir

import (
	"slices"
	"strconv"
	"strings"
)

// link is a symlink in the root, with what it takes to make it again.
type link struct {
	name, target string
	owner        owner
}

// stageNames is step 7. A name that is there but is not the right link counts as new.
func (w *atomicWrite) stageNames() error {
	for _, name := range w.wanted {
		if w.isRightLink(name) {
			continue
		}
		temp := w.temporary(name, tempName(len(w.staged)))
		w.staged = append(w.staged, name)
		if err := w.symlink(linkTarget(name), temp, ownerOf(w.want), w.want.DirMode); err != nil {
			return err
		}
	}
	return nil
}

// isRightLink reports whether name is the right link.
func (w *atomicWrite) isRightLink(name string) bool {
	target := w.found[name].target
	return target != "" && target == linkTarget(name)
}

// linkTarget returns where the link of a name leads: to itself below ..data.
func linkTarget(name string) string {
	return strings.Repeat("../", strings.Count(name, "/")) + dataLink + "/" + name
}

func tempName(i int) string { return tempPrefix + strconv.Itoa(i) }

// dropNames is step 8. Only links can be left leading nowhere; anything else that does not belong
// here is for step 11.
func (w *atomicWrite) dropNames() error {
	for name := range w.left() {
		old := w.found[name]
		if old.target == "" || isReserved(name) || w.isWanted(name) {
			continue
		}
		w.dropped = append(w.dropped, link{name: name, target: old.target, owner: old.owner})
		if err := w.discard(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *atomicWrite) isWanted(name string) bool {
	_, ok := slices.BinarySearch(w.wanted, name)
	return ok
}

// addNames is step 10.
func (w *atomicWrite) addNames() error {
	if w.isNew {
		return nil
	}
	for i, name := range w.staged {
		if w.found.isDir(name) {
			if err := w.discard(name); err != nil {
				return err
			}
		}
		if err := w.rename(tempName(i), name); err != nil {
			return err
		}
	}
	return w.correctLinkOwners()
}

// correctLinkOwners gives the links that were there before their owner.
func (w *atomicWrite) correctLinkOwners() error {
	for _, name := range append([]string{dataLink}, w.wanted...) {
		old, ok := w.found[name]
		if !ok || old.owner == ownerOf(w.want) || w.isReplaced(name) {
			continue
		}
		if err := w.chown(name, ownerOf(w.want)); err != nil {
			return err
		}
	}
	return nil
}

// isReplaced reports whether this Write has put another link in the place of name.
func (w *atomicWrite) isReplaced(name string) bool {
	if name == dataLink {
		return !w.isEqual
	}
	_, isStaged := slices.BinarySearch(w.staged, name) // Sorted, as wanted.
	return isStaged
}

package atomicdir

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Known is what a Write of an [Atomic] left in its directory, so that the next one need not list
// it: that takes a third of the system calls of an update. The zero value is for a
// directory that is not known. The size does not grow with the number of files.
type Known struct {
	device  uint64        // Of the directory; 0 if it is not known.
	changed unix.Timespec // When an entry, the mode or the owner of the directory last changed.
	links   [sha256.Size]byte
	// swapped is when ..data was last renamed.
	swapped unix.Timespec
	// generations are those in the directory, from the oldest to the live one.
	generations []generation
}

// generation is one of the directories that ..data leads to, or led to.
type generation struct {
	name    string
	changed unix.Timespec
}

// isFor reports whether the directory is still as it was left.
func (k *Known) isFor(root info) bool {
	return k.device != 0 && k.device == root.device && k.changed == root.changed
}

// digestOf returns a digest of the links in a directory. No name has a slash.
func digestOf(names []string, o owner) [sha256.Size]byte {
	text := strconv.AppendInt(nil, int64(o.uid), 10)
	text = strconv.AppendInt(append(text, '/'), int64(o.gid), 10)
	for _, name := range names {
		text = append(append(text, '/'), name...)
	}
	return sha256.Sum256(text)
}

// recall enters what is known as if it had been found.
func (w *atomicWrite) recall(k Known) {
	w.found = make(entries, len(w.wanted)+len(k.generations)+1)
	for _, name := range w.wanted {
		w.found[name] = info{mode: unix.S_IFLNK, owner: ownerOf(w.want), target: dataLink + "/" + name}
	}
	for _, g := range k.generations {
		w.live = g.name
		w.found[g.name] = info{mode: unix.S_IFDIR, changed: g.changed}
	}
	w.found[dataLink] = info{mode: unix.S_IFLNK, owner: ownerOf(w.want), target: w.live, changed: k.swapped}
	w.order = slices.Sorted(maps.Keys(w.found))
}

// learn stores what this Write left. The new generation may be a little older than its stored time.
func (w *atomicWrite) learn() {
	root, err := w.statSelf()
	if err != nil {
		return // The next Write lists the directory.
	}
	k := Known{
		device: root.device, changed: root.changed, links: digestOf(w.wanted, ownerOf(w.want)),
		swapped: w.found[dataLink].changed,
	}
	for _, name := range append(w.generationsBefore(w.live), w.live) {
		if found, ok := w.found[name]; ok {
			k.generations = append(k.generations, generation{name, found.changed})
		}
	}
	if w.next != "" {
		k.swapped = root.changed
		k.generations = append(k.generations, generation{w.next, root.changed})
	}
	*w.known = k
}

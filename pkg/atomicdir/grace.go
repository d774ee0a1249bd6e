package atomicdir

import (
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/tree"
)

// spare finds the generations that were replaced so lately that somebody may be on the way into them: the last one when
// ..data was renamed, each other one at the latest when the one after the next was complete. The newest come first, as many
// as there is room to spare for.
func (w *atomicWrite) spare() map[string]bool {
	spared := map[string]bool{}
	if w.grace.Time == 0 || w.live == "" {
		return spared
	}
	left := w.grace.generations(w.want)
	if !w.isEqual {
		left-- // For the one that is going to be replaced.
	}
	replaced := changeTime(w.found[dataLink])
	for _, name := range slices.Backward(w.generationsBefore(w.live)) {
		age := w.now.Sub(replaced)
		if left <= 0 || age < 0 || age >= w.grace.Time { // Less than nothing: the clock was set back.
			break
		}
		spared[name] = true
		replaced = changeTime(w.found[name]) // For the one before: a little too early, by the time that the swap took.
		left--
	}
	return spared
}

// generationsBefore returns the generations that are older than one, by their names, from the oldest on.
func (w *atomicWrite) generationsBefore(name string) []string {
	var older []string
	for other := range w.found {
		if isGeneration(other) && other < name && w.found.isDir(other) {
			older = append(older, other)
		}
	}
	slices.Sort(older)
	return older
}

// Grace is how long a generation that was replaced stays, for readers who were on the way into it when it was: who walks a
// path through ..data finds the file as long as that takes less. The zero value is none.
type Grace struct {
	Time time.Duration
	// Bytes limits what is kept for a grace, by the size of the tree that is written now. One generation is always kept.
	Bytes int
}

// generations returns how many replaced generations may stay beside the tree.
func (g Grace) generations(t tree.Tree) int {
	const page = 4096 // No file takes less.
	return max(1, g.Bytes/max(1, t.Size()+page*len(t.Files)))
}

// changeTime returns when anything of the file was last changed, its name included.
func changeTime(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(st.Ctim.Unix())
}

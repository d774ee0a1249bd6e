package atomicdir

import (
	"fmt"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// clockTick is how much older than the clock a file's times may be.
const clockTick = 10 * time.Millisecond

// spare finds the generations that were replaced so lately that somebody may be on the way into
// them: the last one when ..data was renamed, each other one at the latest when the one after the
// next was complete. It returns an [EarlyError] when there are too many for another one to be
// replaced.
func (w *atomicWrite) spare() error {
	w.spared = map[string]bool{}
	if w.grace.Time == 0 || w.live == "" {
		return nil
	}
	room := w.grace.generations(w.want) - 1 // One is for the generation that is going to be replaced.
	replaced := changeTime(w.found[dataLink])
	for _, name := range slices.Backward(w.generationsBefore(w.live)) {
		over := replaced.Add(w.grace.Time + clockTick)
		if replaced.After(w.now) || !over.After(w.now) { // The first: the clock was set back.
			return nil
		}
		if room--; room < 0 && !w.isEqual {
			*w.known = w.before // Nothing was touched.
			return &EarlyError{Until: over}
		}
		w.spared[name] = true
		replaced = changeTime(w.found[name]) // For the one before: a little too early, by the time that the swap took.
	}
	return nil
}

// EarlyError is returned by [Atomic] when it has touched nothing, because the files were replaced
// so often of late that the generations which are in their grace take all the room there is for
// them.
type EarlyError struct {
	// Until is when there is room for the next one.
	Until time.Time
}

// Error returns how long there is to wait.
func (e *EarlyError) Error() string {
	return fmt.Sprintf("readers may be on the way into the files replaced last; it is too early for new ones until %s",
		e.Until.Format(time.RFC3339Nano))
}

// generationsBefore returns the generations that are older than one, by their names, from the
// oldest on.
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

// Grace is how long a generation that was replaced stays, for readers that were resolving a path
// into it. A reader that walks a path through ..data finds the file as long as that takes less. The
// zero value means no grace.
type Grace struct {
	Time time.Duration
	// Bytes limits what stays for a grace, by the size of the tree that is written now. Anything
	// that would take more has to wait. There is always room for one generation.
	Bytes int
}

// generations returns how many replaced generations may stay beside the tree.
func (g Grace) generations(t tree.Tree) int {
	const page = 4096 // No file takes less.
	return max(1, g.Bytes/max(1, t.Size()+page*len(t.Files)))
}

// changeTime returns when anything of what was found was last changed, its name included.
func changeTime(i info) time.Time { return time.Unix(i.changed.Unix()) }

package atomicdir

import (
	"io/fs"
	"syscall"
	"time"
)

// hasGrace tells whether a generation that is not live was replaced so lately that somebody may be on the way into it.
// That was when the one after it was complete.
func (w *atomicWrite) hasGrace(name string) bool {
	if w.grace == 0 || !isGeneration(name) || !w.found.isDir(name) {
		return false
	}
	next := w.live
	for other := range w.found {
		if isGeneration(other) && other > name && other < next {
			next = other
		}
	}
	info, ok := w.found[next]
	if !ok || next < name { // The clock was set back, or nothing is live.
		return false
	}
	age := w.now.Sub(changeTime(info))
	return age >= 0 && age < w.grace
}

// changeTime returns when anything of the file was last changed, its name included.
func changeTime(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(st.Ctim.Unix())
}

package source

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/budget"
)

// What an object in use takes besides the bytes of its content. Measured.
const (
	bytesPerObject = 64 << 10 // Its watch, and what the connection holds for it.
	bytesPerKey    = 160      // An entry of a map, and two allocations.
	bytesOfMeta    = 4 << 10  // Of an event: metadata, and who manages which field.
)

// How long an object rests that there is no room for. Then it is read in vain, perhaps; it is read sooner when others
// make room, which may be many times a second, and for many objects.
const (
	longestRest  = 2 * time.Minute
	shortestRest = 500 * time.Millisecond
	restJitter   = 0.5
)

// Room is what memory is taken from.
type Room interface {
	// Account returns a new, empty account.
	Account() *budget.Account
}

// costOf returns how much memory it takes to hold the content and to watch it: the stream's decoder keeps a buffer that
// holds the largest event, and which it has made by doubling.
func costOf(c api.Content) int64 {
	size := int64(0)
	for key, value := range c.Data {
		size += int64(len(key) + len(value))
	}
	buffer := int64(1)
	for buffer < size+bytesOfMeta {
		buffer *= 2
	}
	return size + int64(len(c.Data))*bytesPerKey + buffer + bytesPerObject
}

// admit takes the room that the content needs, in place of what the one before had. If there is not enough, the content
// must not be kept: what is known stays, and the object rests.
func (w *watcher) admit(c api.Content) bool {
	cost := costOf(c)
	err := w.item.account.Resize(cost)
	if err == nil {
		w.crowded = 0
		return true
	}
	w.crowded = cost
	w.noteCrowded(err)
	return false
}

func isExhausted(err error) bool {
	_, ok := errors.AsType[*budget.ExhaustedError](err)
	return ok
}

// dismiss gives back the room of content that is gone.
func (w *watcher) dismiss() {
	w.crowded = 0
	w.item.account.Force(bytesPerObject)
}

// noteCrowded remembers that there is no room for the object, and ends its watch, which would bring more of it.
func (w *watcher) noteCrowded(err error) {
	w.cache.update(w, func(s *Snapshot) bool {
		before := s.Err
		s.Err, s.Polled = err, false
		return !isExhausted(before)
	})
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	if w.vigil.watch != nil {
		w.cache.endLocked(w.vigil)
	}
}

// rest stands for the watch of an object that there is no room for, until there may be some. Then it is listed.
func (w *watcher) rest() watch.Interface {
	p := newPause(wait.Jitter(longestRest, restJitter))
	w.item.account.WhenRoom(w.crowded, func() { p.shorten(wait.Jitter(shortestRest, restJitter)) })
	return p
}

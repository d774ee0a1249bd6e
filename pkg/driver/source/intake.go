package source

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

// What an object in use takes besides the bytes of its content. Measured.
const (
	bytesPerObject = 96 << 10 // Its watch, and what the connection holds for it.
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

// CostOf returns how much memory it takes to hold the content, to watch it, and to receive the next event, which may be as
// large.
func CostOf(c api.Content) int64 {
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

// standing reports whether the watch still speaks for its item, and whether that is new. The item's account is that of what
// is held, which a watch that has been stopped does not change any more.
func (w *watcher) standing() (isCurrent, isNew bool) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	return w.ctx.Err() == nil, w.item.isNew
}

// admit takes the room that the content needs, in place of what the one before had. What live volumes may come to need is
// not for an object that is new. If there is not enough, the content must not be kept: what is known stays, and the object
// rests.
func (w *watcher) admit(c api.Content) bool {
	isCurrent, isNew := w.standing()
	if !isCurrent {
		return false
	}
	cost, take := CostOf(c), w.item.account.Resize
	if isNew {
		take = w.item.account.Open
	}
	err := take(cost)
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
	if isCurrent, _ := w.standing(); !isCurrent {
		return
	}
	w.crowded = 0
	w.item.account.Force(bytesPerObject)
}

// noteCrowded remembers that there is no room for the object, and ends its watch, which would bring more of it.
func (w *watcher) noteCrowded(err error) {
	w.cache.update(w, func(s *Snapshot) bool {
		isNews := !sameSort(s.Err, err)
		s.Err, s.Polled = err, false
		return isNews
	})
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	if w.vigil.isOpen {
		w.vigil.giveUp()
	}
}

// waitForRoom has an object that there is no room for listed again when there may be some.
func (w *watcher) waitForRoom() error {
	p := newPause(wait.Jitter(longestRest, restJitter))
	whenRoom := w.item.account.WhenRoom
	if _, isNew := w.standing(); isNew {
		whenRoom = w.item.account.WhenOpen
	}
	whenRoom(w.crowded, func() { p.shorten(wait.Jitter(shortestRest, restJitter)) })
	w.pause = p
	return errListAnew
}

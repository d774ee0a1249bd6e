package source

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
)

// The memory that an object in use takes besides the bytes of its content. Measured.
const (
	// BytesPerWatch is for the watch of an object, with its part of the connection. An object that
	// does not exist has a watch too.
	BytesPerWatch = 96 << 10
	bytesPerKey   = 160     // An entry of a map, and two allocations.
	bytesOfMeta   = 4 << 10 // Of an event: metadata with the managed fields, unless there are more.
)

// How long an object without room is not read. It is read sooner when others make room, which may
// be many times a second, and for many objects.
const (
	longestRest  = 2 * time.Minute
	shortestRest = 500 * time.Millisecond
	restJitter   = 0.5
)

// BytesOf is [BytesPerWatch] with what a selection takes besides its members: its selector is in
// the key, in the target of the watch and in the address of requests.
func BytesOf(key Key) int64 {
	const copies = 4
	return BytesPerWatch + copies*int64(len(key.Selector))
}

// Room is the memory that objects share.
type Room interface {
	// Account returns a new, empty account.
	Account() *budget.Account
}

// CostOf returns how much memory it takes to store the content, to watch it, and to receive the
// next event, which may be as large.
func CostOf(c api.Content) int64 { return costOf(c, 0, 0) }

// costOf is [CostOf] for an object with metadata of a size, and with marks for releases.
func costOf(c api.Content, meta, marks int64) int64 {
	size := int64(0)
	for key, value := range c.Data {
		size += int64(len(key) + len(value))
	}
	buffer := int64(1)
	for buffer < size+max(bytesOfMeta, meta) {
		buffer *= 2
	}
	return size + int64(len(c.Data))*bytesPerKey + marks + buffer + BytesPerWatch
}

// standing reports whether the reader still updates its item, and whether the item is new. A
// stopped reader must not change the item's account.
func (r *reader) standing() (isCurrent, isNew bool) {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return !r.follower.IsStopped(), r.item.isNew
}

// admit resizes the item's account to what its content takes. Items that are new leave a reserve to
// live volumes. If there is not enough room, the content must not be stored: the last content
// stays, and the object is read again after the pause.
func (r *reader) admit(cost int64) *objectwatch.Pause {
	isCurrent, isNew := r.standing()
	if !isCurrent {
		return nil // The next update changes nothing either.
	}
	a := r.item.account
	take, whenRoom := a.Resize, a.WhenRoom
	if isNew {
		take, whenRoom = a.Open, a.WhenOpen
	}
	err := take(cost)
	if err == nil {
		return nil
	}
	r.update(func(s *Snapshot) bool {
		isChange := !sameSort(s.Err, err)
		s.Err, s.Polled = err, false
		return isChange
	})
	pause := objectwatch.NewPause(wait.Jitter(longestRest, restJitter))
	whenRoom(cost, func() { pause.Shorten(wait.Jitter(shortestRest, restJitter)) })
	return pause
}

func isExhausted(err error) bool {
	_, ok := errors.AsType[*budget.ExhaustedError](err)
	return ok
}

// dismiss returns the room of content that is gone.
func (r *reader) dismiss() {
	if isCurrent, _ := r.standing(); isCurrent {
		r.item.account.Force(BytesPerWatch)
	}
}

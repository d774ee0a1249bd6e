package source

import (
	"context"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

// A watch can die without a word: its connection stays open, and nothing comes any more. So signs of life are looked for.
// API servers send a bookmark to each watch once a minute, the first one after up to two.
const (
	// lookEvery is how often the watches are looked at.
	lookEvery = 2 * time.Second
	// longestSilence is how long nothing is heard of a watch before it is held for dead, at least, where bookmarks are sent
	// at all. Jitter keeps the objects of a node apart.
	longestSilence = 160 * time.Second
	silenceJitter  = 0.15
	// overstay is how much longer a watch may last than the API server was asked to keep it.
	overstay = 15 * time.Second
	// relistAfter is how old a list becomes, at least, before the object is listed anew although all looks well.
	relistAfter  = time.Hour
	relistJitter = 1
	// mostDoublings is how often the time is doubled between lists that no watch confirms. It comes to more than an hour.
	mostDoublings = 5
)

// answerLimit is how long the API server has to answer a request that is no watch. One that is never answered must not
// keep its object from being asked for again.
const answerLimit = time.Minute

// vigil is what the cache looks at to find out whether a watch is dead. The cache's lock guards it.
type vigil struct {
	cancel context.CancelFunc // Ends the request that is under way, which may be an open watch; nil before the first one.
	isOpen bool               // A watch is open, and was not given up.
	asks   bool               // A watch was asked for, and is not open yet.

	sign         time.Time     // When something was last heard of the watch.
	isBookmarked bool          // It has brought a bookmark.
	patience     time.Duration // How long nothing may be heard of it.
	until        time.Time     // When the API server should have ended it.

	heard  time.Time // When something was last heard of the object: by a list, or by any of its watches.
	checks int       // How many lists in a row no watch has confirmed.
	relist time.Time // When the object is to be listed anew; zero before it was listed.
	isOver bool      // The watch was stopped in order to list anew; until that is done.
}

// Run replaces watches that have died without a word, until ctx ends. It returns nil. Without it everything else works, as
// long as no watch dies that way. What was acquired before it is taken for what live volumes use already; other objects are
// new when they are first read, and leave a share of the room to those (see [budget.Account.Open]).
func (c *Cache) Run(ctx context.Context) error {
	c.mu.Lock()
	c.isRunning = true
	c.mu.Unlock()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.look()
		case <-ctx.Done():
			return nil
		}
	}
}

// Replaced returns how many watches were found to be dead, and replaced, so far.
func (c *Cache) Replaced() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replaced
}

// Silence returns how long nothing has been heard of the watch that has been silent for longest; zero when none is open.
func (c *Cache) Silence() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var longest time.Duration
	for _, it := range c.items {
		if it.stop != nil && it.vigil.isOpen {
			longest = max(longest, time.Since(it.vigil.sign))
		}
	}
	return longest
}

// look stops the watches that are dead, and those whose objects have not been listed for long. They are then listed.
func (c *Cache) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for key, it := range c.items {
		if it.stop == nil || it.vigil.isOver {
			continue
		}
		dead := it.vigil.isDead(now, c.bookmarks[key.Ref.Kind])
		if dead {
			c.replaced++
		}
		if dead || it.vigil.isDue(now) {
			it.vigil.giveUp()
		}
	}
}

// giveUp ends a watch, or the request for one, so that the object is listed.
func (v *vigil) giveUp() {
	v.isOver, v.isOpen = true, false
	v.cancel()
}

// isDead reports whether the watch can be held for dead. That nothing was heard of it means something where bookmarks are
// sent: it has had one itself, or another watch of the kind has since. An API server that has not seen a change of the kind
// since it started sends none.
func (v *vigil) isDead(now, bookmarkOfKind time.Time) bool {
	if !v.isOpen && !v.asks {
		return false
	}
	tells := v.asks || v.isBookmarked || bookmarkOfKind.After(v.sign)
	return tells && now.Sub(v.sign) >= v.patience || now.After(v.until)
}

// isDue reports whether it is time to list an object anew that is watched: because that is long ago, or because no watch
// has confirmed it since. A watch from a version that its server has not come to brings nothing, not even bookmarks: it
// waits for that version, which after etcd was restored to an earlier state may be for ever. Where no bookmarks are sent
// at all, twice as much time goes by before each further list.
func (v *vigil) isDue(now time.Time) bool {
	if !v.isOpen || v.relist.IsZero() {
		return false
	}
	if now.After(v.relist) {
		return true
	}
	if now.Sub(v.heard) < v.patience<<min(v.checks, mostDoublings) {
		return false
	}
	v.checks++
	return true
}

// beginList returns the list's options: after a watch that was dead, what its server has in a cache may be as old as what
// the watch has brought.
func (w *watcher) beginList() metav1.ListOptions {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	if w.vigil.isOver {
		return metav1.ListOptions{ResourceVersion: latestVersion}
	}
	return metav1.ListOptions{ResourceVersion: w.version}
}

// noteList remembers that the object was listed.
func (w *watcher) noteList() {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	now := time.Now()
	w.vigil.isOver = false
	w.vigil.heard, w.vigil.relist = now, now.Add(wait.Jitter(relistAfter, relistJitter))
}

// beginRequest returns the context of a request that is no watch. Requests end with the cache's context, and by vigil.cancel
// with the watcher's. As children of the watcher's, each of which lasts for long, they would have it keep books of them.
func (w *watcher) beginRequest() (context.Context, context.CancelFunc) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	ctx, cancel := context.WithTimeout(flowcontrol.By(w.cache.ctx, w), answerLimit)
	w.vigil.cancel = cancel
	if w.ctx.Err() != nil {
		cancel()
	}
	return ctx, cancel
}

// beginWatch returns the context of a request for a watch. It is an error when the object is to be listed first.
func (w *watcher) beginWatch(o metav1.ListOptions) (context.Context, error) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	if w.vigil.isOver || w.ctx.Err() != nil {
		return nil, errListAnew
	}
	now := time.Now()
	v := &w.vigil
	ctx, cancel := context.WithCancel(flowcontrol.By(w.cache.ctx, w))
	v.cancel = cancel
	v.asks, v.isBookmarked, v.sign = true, false, now
	v.patience = wait.Jitter(longestSilence, silenceJitter)
	v.until = now.Add(time.Duration(*o.TimeoutSeconds)*time.Second + overstay)
	return ctx, nil
}

// endAsking takes the answer to a request for a watch.
func (w *watcher) endAsking(body io.ReadCloser, err error) (io.ReadCloser, error) {
	if isOver := w.noteAnswer(err); !isOver {
		return body, err
	}
	if err == nil { // It came just when it was given up.
		_ = body.Close()
	}
	return nil, errListAnew // Not the word that the request was given up.
}

// noteAnswer remembers that a watch is open, unless there is an error or it was given up.
func (w *watcher) noteAnswer(err error) (isOver bool) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	v := &w.vigil
	v.asks = false
	if err != nil || v.isOver {
		v.cancel()
		return v.isOver
	}
	now := time.Now()
	v.until = v.until.Add(now.Sub(v.sign)) // The server's clock runs from its answer at the latest.
	v.isOpen, v.sign = true, now
	return false
}

// noteEnd remembers that no watch is open.
func (w *watcher) noteEnd() {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	w.vigil.isOpen = false
	w.vigil.cancel()
}

// noteSign remembers that something was heard of the watch. A bookmark is its word that it has missed nothing.
func (w *watcher) noteSign(kind watch.EventType) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	now := time.Now()
	v := &w.vigil
	v.sign, v.heard, v.checks = now, now, 0
	if kind == watch.Bookmark {
		v.isBookmarked = true
		w.cache.bookmarks[w.key.Ref.Kind] = now
	}
}

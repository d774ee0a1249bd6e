package source

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
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
	cancel context.CancelFunc // Ends the request for a watch; nil before the first one.
	watch  watch.Interface    // Nil unless one is open, and after the cache has stopped it.
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
		if it.stop != nil && it.vigil.watch != nil {
			longest = max(longest, time.Since(it.vigil.sign))
		}
	}
	return longest
}

// look stops the watches that are dead, and those whose objects have not been listed for long. Their reflectors then list.
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
			c.endLocked(it.vigil)
		}
	}
}

// endLocked stops a watch, or the request for one. Stopping may wait for a connection that nobody reads, so that nobody
// waits for it. c.mu is held.
func (c *Cache) endLocked(v *vigil) {
	v.isOver = true
	if v.watch == nil {
		v.cancel()
		return
	}
	c.wg.Go(v.watch.Stop)
	v.watch = nil
}

// isDead reports whether the watch can be held for dead. That nothing was heard of it means something where bookmarks are
// sent: it has had one itself, or another watch of the kind has since. An API server that has not seen a change of the kind
// since it started sends none.
func (v *vigil) isDead(now, bookmarkOfKind time.Time) bool {
	if v.watch == nil && !v.asks {
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
	if v.watch == nil || v.relist.IsZero() {
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

// beginList ends what is left of a watch, and returns the list's options: after a watch that was dead, what its server has
// in a cache may be as old as what the watch has brought.
func (w *watcher) beginList(o metav1.ListOptions) metav1.ListOptions {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	w.vigil.endWatch()
	if w.vigil.isOver || o.ResourceVersion == anyVersion {
		o.ResourceVersion = latestVersion
	}
	return o
}

// endWatch forgets the watch, which its reflector has left.
func (v *vigil) endWatch() {
	if v.cancel != nil {
		v.cancel()
	}
	v.watch, v.asks = nil, false
}

// noteList remembers that the object was listed.
func (w *watcher) noteList() {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	now := time.Now()
	w.vigil.isOver = false
	w.vigil.heard, w.vigil.relist = now, now.Add(wait.Jitter(relistAfter, relistJitter))
}

// beginWatch returns the context of a request for a watch. It is an error when the object is to be listed first.
func (w *watcher) beginWatch(ctx context.Context, o metav1.ListOptions) (context.Context, error) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	w.vigil.endWatch()
	if w.vigil.isOver {
		return nil, errOver()
	}
	now := time.Now()
	v := w.vigil
	ctx, v.cancel = context.WithCancel(ctx)
	v.asks, v.isBookmarked, v.sign = true, false, now
	v.patience = wait.Jitter(longestSilence, silenceJitter)
	v.until = now.Add(time.Duration(*o.TimeoutSeconds)*time.Second + overstay)
	return ctx, nil
}

// endAsking takes the answer to a request for a watch.
func (w *watcher) endAsking(i watch.Interface, err error) (watch.Interface, error) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	v := w.vigil
	v.asks = false
	switch {
	case err != nil && v.isOver:
		return nil, errOver() // Not the word that the request was given up.
	case err != nil:
		return nil, err
	case v.isOver: // It came just when it was given up.
		w.cache.wg.Go(i.Stop)
		return nil, errOver()
	}
	now := time.Now()
	v.until = v.until.Add(now.Sub(v.sign)) // The server's clock runs from its answer at the latest.
	v.watch, v.sign = i, now
	return i, nil
}

// errOver has the reflector list.
func errOver() error {
	return apierrors.NewResourceExpired("nothing was heard of the watch for too long")
}

// noteSign remembers that something was heard of the watch.
func (w *watcher) noteSign() {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	w.vigil.hear(time.Now())
}

func (v *vigil) hear(now time.Time) {
	v.sign, v.heard, v.checks = now, now, 0
}

// Bookmark takes the word that the watch has missed nothing. It is cache.ReflectorBookmarkStore.
func (w *watcher) Bookmark(string) error {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	now := time.Now()
	w.vigil.hear(now)
	w.vigil.isBookmarked = true
	w.cache.bookmarks[w.key.Ref.Kind] = now
	return nil
}

package objectwatch

import (
	"context"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

// A watch can die silently: its connection stays open and delivers nothing. So the watchdog looks
// for signs of life. API servers send a bookmark to each watch once a minute, the first one
// within two.
const (
	// checkInterval is how often the watches are checked.
	checkInterval = 2 * time.Second
	// silenceTimeout is the least time of silence after which a watch counts as dead, where
	// bookmarks are sent. Jitter keeps the objects of a node apart.
	silenceTimeout = 160 * time.Second
	silenceJitter  = 0.15
	// overstay is how much longer than requested a watch may last.
	overstay = 15 * time.Second
	// relistAfter is the least age of a list at which the object is listed again although all looks
	// well.
	relistAfter  = time.Hour
	relistJitter = 1
	// mostDoublings is how often the time between lists that no watch confirms is doubled. That
	// makes more than an hour.
	mostDoublings = 5
)

// requestTimeout is how long the API server has to answer a request other than a watch. A request
// that is never answered must not prevent the next one.
const requestTimeout = time.Minute

// watchdog detects that a watch is dead. The group's lock guards it.
type watchdog struct {
	cancel      context.CancelFunc // Ends the current request, which may be an open watch; nil before the first one.
	isOpen      bool               // A watch is open, and was not given up.
	isRequested bool               // A watch was requested, and is not open yet.
	isGivenUp   bool               // The watch was ended; the object has not been listed since.

	heard          time.Time     // When the API server last delivered anything about the object, or denied it.
	sign           time.Time     // When the watch last showed a sign of life.
	isBookmarked   bool          // The watch has delivered a bookmark.
	silenceTimeout time.Duration // How long the watch may be silent.
	deadline       time.Time     // When the API server should have ended the watch.

	confirmed time.Time // When a list or a watch last confirmed the state of the object.
	checks    int       // How many lists in a row no watch has confirmed.
	relist    time.Time // When the object is to be listed again; zero before it was listed.
}

// giveUp ends a watch, or the request for one, so that the object is listed.
func (w *watchdog) giveUp() {
	w.isGivenUp, w.isOpen = true, false
	w.cancel()
}

// isDead reports whether the watch counts as dead. Silence matters only where bookmarks are sent:
// the watch has delivered one, or another watch of the kind has since. An API server that has not
// seen a change of the kind since it started sends none.
func (w *watchdog) isDead(now, bookmarkOfKind time.Time) bool {
	if !w.isOpen && !w.isRequested {
		return false
	}
	mustSign := w.isRequested || w.isBookmarked || bookmarkOfKind.After(w.sign)
	return mustSign && now.Sub(w.sign) >= w.silenceTimeout || now.After(w.deadline)
}

// isListOld reports whether a watched object was last listed too long ago.
func (w *watchdog) isListOld(now time.Time) bool {
	return w.isOpen && !w.relist.IsZero() && now.After(w.relist)
}

// isUnconfirmed reports whether a watched object is to be listed because its watch has not
// confirmed it. A watch from a version that its server has not reached delivers nothing, not even
// bookmarks: it waits for that version, perhaps for ever if etcd was restored to an earlier
// state. Where no bookmarks are sent, the time doubles before each further list.
func (w *watchdog) isUnconfirmed(now time.Time) bool {
	return w.isOpen && !w.relist.IsZero() &&
		now.Sub(w.confirmed) >= w.silenceTimeout<<min(w.checks, mostDoublings)
}

// giveUpWatch ends the watch if it is open.
func (f *Follower) giveUpWatch() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	if f.watchdog.isOpen {
		f.watchdog.giveUp()
	}
}

// listOptions returns the options of the next list. After a dead watch it asks for the latest: the
// server's cache may be as old as what the watch delivered.
func (f *Follower) listOptions() metav1.ListOptions {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	if f.watchdog.isGivenUp {
		return metav1.ListOptions{ResourceVersion: latestVersion}
	}
	return metav1.ListOptions{ResourceVersion: f.version}
}

// noteList records that the object was listed.
func (f *Follower) noteList() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	now, w := time.Now(), &f.watchdog
	w.isGivenUp = false
	w.heard, w.confirmed, w.relist = now, now, now.Add(wait.Jitter(relistAfter, relistJitter))
}

// BeginRequest returns the context of a request other than a watch, for a [Handler]. It ends with
// the group's context, and with the follower through watchdog.cancel: a child of the follower's
// context, which lasts long, would need an entry there.
func (f *Follower) BeginRequest() (context.Context, context.CancelFunc) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	ctx, cancel := context.WithTimeout(f.requestContext(), requestTimeout)
	f.watchdog.cancel = cancel
	if f.ctx.Err() != nil {
		cancel()
	}
	return ctx, cancel
}

func (f *Follower) requestContext() context.Context {
	if f.target.Asker == nil {
		return f.group.ctx
	}
	return flowcontrol.By(f.group.ctx, f.target.Asker)
}

// beginWatch returns the context of a request for a watch, or an error if the object is to be
// listed first.
func (f *Follower) beginWatch(o metav1.ListOptions) (context.Context, error) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	if f.watchdog.isGivenUp || f.ctx.Err() != nil {
		return nil, errRelist
	}
	now, w := time.Now(), &f.watchdog
	ctx, cancel := context.WithCancel(f.requestContext())
	w.cancel = cancel
	w.isRequested, w.isBookmarked, w.sign = true, false, now
	w.silenceTimeout = wait.Jitter(silenceTimeout, silenceJitter)
	w.deadline = now.Add(time.Duration(*o.TimeoutSeconds)*time.Second + overstay)
	return ctx, nil
}

// endWatchRequest takes the answer to a request for a watch.
func (f *Follower) endWatchRequest(body io.ReadCloser, err error) (io.ReadCloser, error) {
	if isGivenUp := f.noteAnswer(err); !isGivenUp {
		return body, err
	}
	if err == nil { // The answer came just when the request was given up.
		_ = body.Close()
	}
	return nil, errRelist // The request's own error is only that it was cancelled.
}

// noteAnswer records that a watch is open, unless the request failed or was given up.
func (f *Follower) noteAnswer(err error) (isGivenUp bool) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	w := &f.watchdog
	w.isRequested = false
	if err != nil || w.isGivenUp {
		w.cancel()
		return w.isGivenUp
	}
	now := time.Now()
	w.deadline = w.deadline.Add(now.Sub(w.sign)) // The server's clock starts with its answer at the latest.
	w.isOpen, w.sign, w.heard = true, now, now
	return false
}

// noteRefusal records that the API server has answered and denies the object: it is not silent. Any
// other error is that of an outage, or of a server that cannot serve.
func (f *Follower) noteRefusal(err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return
	}
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.watchdog.heard = time.Now()
}

// noteEnd records that no watch is open.
func (f *Follower) noteEnd() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.watchdog.isOpen = false
	f.watchdog.cancel()
}

// noteSign records a sign of life of the watch. A bookmark means that the watch has missed nothing.
func (f *Follower) noteSign(kind watch.EventType) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	now, w := time.Now(), &f.watchdog
	w.heard, w.sign, w.confirmed, w.checks = now, now, now, 0
	if kind == watch.Bookmark {
		w.isBookmarked = true
		f.group.bookmarks[f.target.Kind] = now
	}
}

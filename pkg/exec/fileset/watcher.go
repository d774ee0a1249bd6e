package fileset

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Moment is when a change of a file's bytes is reported.
type Moment int

// The moments.
const (
	// EachWrite reports each write.
	EachWrite Moment = iota
	// WhenClosed reports writes when the writer closes the file: what is read before is half of
	// something.
	WhenClosed
)

// PollInterval is how often a watcher looks at the files where the kernel does not report every
// change.
const PollInterval = time.Second

// retryInterval is how often a watcher that polls has the kernel asked again.
const retryInterval = 30 * time.Second

// Config is what a watcher needs.
type Config struct {
	// Moment is when a change of a file's bytes is reported.
	Moment Moment
	// Polling is called with the reason when the watcher begins to poll, and with nil when the
	// kernel reports every change again. It must not block, and must not call the watcher.
	Polling func(reason error)
	// Interval is how often a watcher that polls looks at the files. Zero means [PollInterval].
	Interval time.Duration
	// Retry is how often a watcher that polls tries to have the kernel report every change again.
	// Zero means half a minute.
	Retry time.Duration
}

// Watcher reports changes at the paths of sets. It learns of them from the kernel, by inotify.
// Where inotify is used up for this user, the watcher polls.
type Watcher struct {
	cfg Config
	// raw has an element when something may have changed since the last one was taken.
	raw chan struct{}
	// wake has an element when polling may have to begin or to end.
	wake chan struct{}
	// opened has the queue to read next. It never has two.
	opened chan *queue

	reporting sync.Mutex // Held while cfg.Polling is called.

	mu sync.Mutex // Guards the fields below.
	// last is the set that was watched last.
	last Set
	// reason is why the watcher polls, and since when; nil if it does not.
	reason error
	since  time.Time
	// queue has the kernel's events; nil if it is not open.
	queue  *queue
	closed bool
}

// NewWatcher returns a watcher of nothing. The caller must call [Watcher.Run], which ends it.
func NewWatcher(cfg Config) *Watcher {
	cfg.Interval, cfg.Retry = cmp.Or(cfg.Interval, PollInterval), cmp.Or(cfg.Retry, retryInterval)
	return &Watcher{
		cfg: cfg, raw: make(chan struct{}, 1), wake: make(chan struct{}, 1), opened: make(chan *queue, 1),
	}
}

// Changes has an element when something may have changed.
func (w *Watcher) Changes() <-chan struct{} { return w.raw }

// Watch watches what a set was read from. Parts of the sets before may be watched still. A change
// since the set was read counts as one that comes now, and so does what may have: of
// two changes at one moment, which the file system stamps alike, it is not known which was read.
// Only one goroutine at a time may call Watch.
func (w *Watcher) Watch(set Set) {
	w.mu.Lock()
	w.last = set
	queue, err := w.openLocked()
	isClosed := w.closed
	w.mu.Unlock()
	if isClosed {
		return
	}
	if err == nil {
		err = queue.watch(set)
	}
	w.setReason(err)
	if !set.IsCurrent() || set.isYoung() {
		w.notify()
	}
}

// openLocked returns the queue, and opens it first if necessary. w.mu is held.
func (w *Watcher) openLocked() (*queue, error) {
	if w.queue != nil || w.closed {
		return w.queue, nil
	}
	queue, err := openQueue(w.cfg.Moment)
	if err == nil {
		w.queue = queue
		w.opened <- queue
	}
	return queue, err
}

// setReason begins polling, or ends it where there is no reason.
func (w *Watcher) setReason(reason error) {
	w.reporting.Lock()
	defer w.reporting.Unlock()
	w.mu.Lock()
	isOther := (w.reason == nil) != (reason == nil) && !w.closed
	w.reason = reason
	if isOther {
		w.since = time.Now()
	}
	w.mu.Unlock()
	put(w.wake)
	if isOther {
		w.cfg.Polling(reason)
	}
}

// notify reports that something may have changed.
func (w *Watcher) notify() { put(w.raw) }

// put puts an element into a channel that has room for one. An element that is there already does
// as well.
func put(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run reports changes until the context ends.
func (w *Watcher) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { w.read(ctx) })
	both.Go(func() { w.poll(ctx) })
	<-ctx.Done()
	w.close()
	both.Wait()
}

func (w *Watcher) close() {
	w.mu.Lock()
	queue := w.queue
	w.queue, w.closed = nil, true
	w.mu.Unlock()
	if queue != nil {
		queue.close()
	}
}

// read reads one queue after the other.
func (w *Watcher) read(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case queue := <-w.opened:
			w.lose(queue, queue.read(w.notify))
		}
	}
}

// lose begins polling where a queue cannot be read any more.
func (w *Watcher) lose(queue *queue, err error) {
	w.mu.Lock()
	isLost := w.queue == queue
	if isLost {
		w.queue = nil
	}
	w.mu.Unlock()
	if isLost {
		queue.close()
		w.setReason(fmt.Errorf("read what has changed: %w", err))
	}
}

// poll looks at the files as long as there is a reason to.
func (w *Watcher) poll(ctx context.Context) {
	look, retry := time.NewTicker(w.cfg.Interval), time.NewTicker(w.cfg.Retry)
	defer look.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			look.Reset(w.cfg.Interval)
			retry.Reset(w.cfg.Retry)
			if !w.isPolling() {
				look.Stop()
				retry.Stop()
			}
		case <-look.C:
			if w.hasChanged() {
				w.notify()
			}
		case <-retry.C:
			w.notify() // The files are read again, and so watched again.
		}
	}
}

func (w *Watcher) isPolling() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reason != nil
}

func (w *Watcher) hasChanged() bool {
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	return !last.IsCurrent()
}

// Writing reports whether somebody has begun to write a file and has not closed it. It knows of all
// writes before the call. A writer that has written nothing for a time is not waited for. A watcher
// that polls cannot know: to it, a file that was written to in the last second is being written,
// unless the watcher polls only since then.
func (w *Watcher) Writing(path string) bool {
	w.mu.Lock()
	queue, isPolling, since := w.queue, w.reason != nil, w.since
	w.mu.Unlock()
	if queue != nil && queue.findsWriter(path, w.notify) {
		return true
	}
	mtime := look(path).mtime
	written := time.Unix(mtime.Unix())
	return isPolling && written.After(since) && time.Since(written) < shortWrite
}

// shortWrite is how long a writer may rest that nobody sees close the file.
const shortWrite = time.Second

package objectwatch

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

// latestVersion asks for the latest state. The first list does: a server that answers from a
// stale cache could return something older than another server has returned, or an older
// immutable object, which is read only once. Lists that name a known version are answered with
// nothing older.
const latestVersion = ""

// errRelist is why no watch begins: the object must be listed first.
var errRelist = errors.New("the object is to be listed again")

// Follower lists and watches one object.
//
// A node has one for each object, so it takes little memory while it waits, which is nearly
// always: one goroutine that reads the body of the watch with a small stack, because each step
// runs in a new goroutine. No buffer outlives its event. The follower does what reflectors of the
// client library do:
//
//   - The first list is consistent. Later lists ask for nothing older than what is known, or for
//     the latest if the server has forgotten that version or has not reached it yet.
//   - A watch continues from the last known version. If a watch ends normally or with its
//     connection, the next one continues from there: at once if its time was up, otherwise within
//     a second. If the version has expired, the object is listed.
//   - Bookmarks advance that version, so the version of a quiet object does not expire.
//   - Other errors are retried after a growing delay with jitter, which starts over after quiet
//     times. After the status 429 the watch continues. A watch that is closed at once counts as
//     an error.
//   - A slow server delays only the object that was requested.
type Follower struct {
	group   *Group
	target  Target
	handler Handler
	poller  Poller // Nil: the object is not polled.
	// collector is the handler of a target that is a selection; nil for one object.
	collector Collector
	ctx       context.Context    // Done once the follower was stopped; nil until it begins.
	stop      context.CancelFunc // Guarded by the group's lock.
	watchdog  watchdog           // Guarded by the group's lock.

	// The fields below are used by one request at a time.
	// The version that a watch continues from; latestVersion before the first list, and after that
	// version has expired.
	version   string
	retry     retry
	pause     *Pause    // Comes before the next list; nil for none.
	canList   bool      // The last list was answered, and no watch has been opened since.
	polls     bool      // The last list was denied, and a get was answered.
	unwatched time.Time // When a watch was first denied since the last one was open; zero for never.
	questions questions
}

// Follower returns a follower of the target, for [Follower.Start]. The handler of a target with a
// selector is a [Collector].
func (g *Group) Follower(t Target, h Handler) *Follower {
	poller, _ := h.(Poller)
	collector, _ := h.(Collector)
	return &Follower{group: g, target: t, handler: h, poller: poller, collector: collector}
}

// Start starts the follower, which begins when [Group.Run] does. It must be called once. The
// follower ends with [Follower.Stop], or with its group.
func (f *Follower) Start() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.group.followers[f] = struct{}{}
	f.beginLocked()
}

func (f *Follower) beginLocked() {
	if !f.group.isRunning {
		return
	}
	f.ctx, f.stop = context.WithCancel(f.group.ctx)
	f.watchdog.heard = time.Now() // A server that is away from the start is silent since then.
	f.group.running.Add(1)        // Until its last step.
	go f.begin()
}

// Stop ends the follower, without waiting.
func (f *Follower) Stop() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	delete(f.group.followers, f)
	if f.stop != nil {
		f.stop()
	}
	if f.watchdog.cancel != nil {
		f.watchdog.cancel()
	}
}

// IsStopped reports, to a [Handler], whether [Follower.Stop] was called, or the group's context has
// ended.
func (f *Follower) IsStopped() bool { return f.ctx.Err() != nil }

// begin lists the object and then watches it. Every step of a follower ends with the next one.
func (f *Follower) begin() {
	if err := f.relist(); err != nil {
		f.then(f.rest)
		return
	}
	f.goOn()
}

// goOn opens the next watch.
func (f *Follower) goOn() {
	s, err := f.open()
	switch {
	case err == nil:
		go f.follow(s)
	case apierrors.IsTooManyRequests(err):
		f.then(f.restAndGoOn)
	default:
		f.then(f.rest)
	}
}

// follow waits for the next event and takes it.
func (f *Follower) follow(s *stream) {
	err := s.wait()
	if err == nil {
		err = f.next(s)
	}
	if err == nil {
		go f.follow(s) // It closes the stream, also if the follower was stopped.
		return
	}
	rest := s.beforeReopening() // Before close, which changes it.
	switch err = f.close(s, err); {
	case apierrors.IsTooManyRequests(err):
		f.then(f.restAndGoOn)
	case err != nil, s.isShort():
		f.then(f.rest)
	case rest > 0:
		NewPause(rest).wait(f.ctx)
		f.then(f.goOn)
	default: // Mostly. No timer is made: hundreds that end at once upset Go's race detector.
		f.then(f.goOn)
	}
}

// rest waits for the pause if there is one, and for the delay after an error. Then it begins again.
func (f *Follower) rest() {
	if f.pause != nil {
		f.pause.wait(f.ctx)
		f.pause = nil
	}
	NewPause(f.retry.next()).wait(f.ctx)
	f.then(f.begin)
}

// restAndGoOn waits for the delay after an error. The last content is still good.
func (f *Follower) restAndGoOn() {
	NewPause(f.retry.next()).wait(f.ctx)
	f.then(f.goOn)
}

// then takes the next step, unless the follower was stopped. It does so on a new stack: a goroutine
// keeps the stack of its deepest call, and most of these wait.
func (f *Follower) then(step func()) {
	if f.ctx.Err() != nil {
		f.group.running.Done()
		return
	}
	go step()
}

// relist lists the object, at its latest version if the known one has expired. Lists of a selection
// always ask for the latest state, because only such lists come in pages.
func (f *Follower) relist() error {
	if f.collector != nil {
		return f.collect()
	}
	o := f.listOptions()
	err := f.read(o)
	if isExpired(o, err) {
		f.version = latestVersion
		err = f.read(f.listOptions())
	}
	return err
}

// read reads the object with the options.
func (f *Follower) read(o metav1.ListOptions) error {
	ctx, cancel := f.BeginRequest()
	defer cancel()
	found, err := f.ask(ctx, o)
	if err != nil {
		f.noteRefusal(err)
		if !isExpired(o, err) {
			f.handler.Outcome(err)
		}
		return err
	}
	// Only an open watch is reported as success: lists may be served where watches are not.
	f.noteList()
	f.version = found.version
	f.take(found.object)
	return nil
}

// ask lists the object. If the list is denied, it gets the object.
func (f *Follower) ask(ctx context.Context, o metav1.ListOptions) (listed, error) {
	if err := f.handler.Allow(ctx); err != nil {
		return listed{}, err
	}
	found, err := f.list(ctx, o)
	f.canList, f.polls = err == nil, false
	if f.poller == nil || !apierrors.IsForbidden(err) {
		return found, err
	}
	found, getErr := f.get(ctx)
	if apierrors.IsForbidden(getErr) {
		return listed{}, f.poller.Denied(err) // The list's error names the right that is to be granted.
	}
	f.polls = getErr == nil
	return found, getErr
}

// open opens a watch. If the object may only be read, it is listed again after a while.
func (f *Follower) open() (*stream, error) {
	switch {
	case f.pause != nil:
		return nil, errRelist
	case f.polls:
		return nil, f.poll()
	}
	if err := f.allowWatch(); err != nil {
		f.handler.Outcome(err)
		return nil, err
	}
	o, asked := f.watchOptions(), time.Now()
	ctx, err := f.beginWatch(o)
	if err != nil {
		return nil, err
	}
	body, err := f.endWatchRequest(f.watch(ctx, o))
	switch {
	case isExpired(o, err), isHangup(err), errors.Is(err, errRelist):
		return nil, err // Nothing is wrong, or the next list reports it.
	case f.poller != nil && apierrors.IsForbidden(err) && f.canList:
		return nil, f.poll()
	case f.poller != nil && apierrors.IsForbidden(err):
		return nil, err // The next list shows whether everything is denied.
	}
	f.canList = false // The answer to the list is old by now.
	f.handler.Outcome(err)
	if err != nil {
		return nil, err
	}
	f.unwatched = time.Time{}
	timeout := time.Duration(*o.TimeoutSeconds) * time.Second
	return &stream{ctx: ctx, body: body, decoder: f.group.decoder, asked: asked, timeout: timeout}, nil
}

// watchOptions returns the options of the next watch. Jitter keeps the objects of a node apart.
func (f *Follower) watchOptions() metav1.ListOptions {
	seconds := int64(wait.Jitter(f.target.Reopen, 1).Seconds())
	return metav1.ListOptions{ResourceVersion: f.version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds}
}

// next takes the event that has begun to arrive. It skips events of unknown types or about other
// objects.
func (f *Follower) next(s *stream) error {
	e, err := s.next()
	if err != nil {
		return err
	}
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	s.hasBrought = true
	o, ok := f.target.objectOf(e)
	if !ok {
		return nil
	}
	f.noteSign(e.Type)
	switch {
	case f.collector != nil:
		f.deliver(s, e.Type, o)
	case e.Type == watch.Added, e.Type == watch.Modified:
		f.take(o)
	case e.Type == watch.Deleted:
		f.take(nil)
	default: // A bookmark has a version and nothing else.
	}
	f.version = o.GetResourceVersion()
	return nil
}

// take passes the object, or nil for an absent one, to the handler. If the handler cannot take it,
// an open watch ends, because it would deliver more of it.
func (f *Follower) take(o metav1.Object) {
	f.pause = nil
	if o == nil {
		f.handler.Missing()
		return
	}
	if f.pause = f.handler.Found(o); f.pause != nil {
		f.giveUpWatch()
	}
}

// close closes a stream and returns why it has ended: nil if it ended normally or with its
// connection, or was given up.
func (f *Follower) close(s *stream, err error) error {
	if s.ctx.Err() != nil || isHangup(err) {
		err = nil
	}
	f.noteEnd() // Before the body is closed, which could otherwise wait for a connection that nobody reads.
	_ = s.body.Close()
	return err
}

// allowWatch returns nil if a watch may be requested.
func (f *Follower) allowWatch() error {
	ctx, cancel := f.BeginRequest()
	defer cancel()
	return f.handler.Allow(ctx)
}

// poll makes the next list come after a while: soon at first, because the denial may be a mistake
// of the server.
func (f *Follower) poll() error {
	if f.unwatched.IsZero() {
		f.unwatched = time.Now()
	}
	since := time.Since(f.unwatched)
	longest := f.poller.Polled(since)
	if longest == 0 {
		f.retry = retry{}
	}
	rest := min(max(firstRequestRetry, since), max(firstRequestRetry, longest))
	f.pause = NewPause(wait.Jitter(rest, pollJitter))
	return errRelist
}

package source

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/identity"
)

// driverWatch is how long a quiet watch of the driver's own stays open at least, as the kubelet has it: opening anew is a
// request. Its rights hardly change.
const driverWatch = 30 * time.Minute

// latestVersion has a list answered with the latest there is. The first list asks for it: a server that may answer from a
// cache that lags behind could bring something older than another one has said, or than an immutable object, which is read
// once and never again. Lists that name the version they know are answered with nothing older.
const latestVersion = ""

// errListAnew is why there is no watch: the object is to be listed first.
var errListAnew = errors.New("the object is to be listed anew")

// watcher keeps one item's snapshot current by listing and watching the one object by name.
//
// A node has one for each object, so it is made to take little while it waits, which it does nearly all the time: one
// goroutine that reads the body of the watch, with next to nothing on its stack, since each step of its life is taken by a
// goroutine of its own. No buffer outlives its event. It gets right what reflectors of the client library do:
//
//   - The first list is consistent. Later ones ask for nothing older than what is known, and for the latest where a server
//     has forgotten that version or has not come to it yet.
//   - A watch goes on from the last version that was listed or has come by any watch. One that ends in good order, or with
//     its connection, is opened anew from there, at once when its time was up and within a second otherwise; an expired
//     version, in a status or in an event, has the object listed.
//   - Bookmarks advance that version, so that a quiet object's does not expire.
//   - Whatever else goes wrong is tried again after a growing delay with jitter, which starts over after quiet times. Who
//     is told to come back later goes on with its watch. A watch that is closed at once counts as a failure.
//   - A slow server holds up nothing but the object that was asked for.
type watcher struct {
	cache  *Cache
	key    Key
	item   *item
	ctx    context.Context // Done once this watch is stopped; checked under the cache's lock.
	object object
	vigil  vigil // Guarded by the cache's lock.

	// What follows is for one request at a time.
	version string // From which a watch goes on; latestVersion until it was listed, and when that cannot be had any more.
	retry   retry
	pause   *pause // What is to be waited for before the next list; nil for nothing.
	canList bool   // The last list was answered, and nothing was heard of a watch since but that it is forbidden.
	polls   bool   // The last list was refused, and a get answered in its place.
	crowded int64  // How much room the last content needs that could not be taken; zero for none.
	// unwatched is when a watch was first refused since one was open, and denied is the first of the denials that were the
	// only answers since; zero for neither.
	unwatched, denied time.Time
}

// begin lists the object, and then has it watched. Like every step of a watcher's life it ends with the next one.
func (w *watcher) begin() {
	if err := w.list(); err != nil {
		w.then(w.rest)
		return
	}
	w.goOn()
}

// goOn opens the next watch.
func (w *watcher) goOn() {
	s, err := w.open()
	switch {
	case err == nil:
		go w.follow(s)
	case apierrors.IsTooManyRequests(err):
		w.then(w.restAndGoOn)
	default:
		w.then(w.rest)
	}
}

// follow waits for the next event and takes it.
func (w *watcher) follow(s *stream) {
	err := s.wait()
	if err == nil {
		err = w.next(s)
	}
	if err == nil {
		go w.follow(s) // Which closes it, also when nobody needs it any more.
		return
	}
	rest := s.beforeReopening() // Which closing it would change.
	switch err = w.close(s, err); {
	case apierrors.IsTooManyRequests(err):
		w.then(w.restAndGoOn)
	case err != nil, s.isShort():
		w.then(w.rest)
	case rest > 0:
		newPause(rest).wait(w.ctx)
		w.then(w.goOn)
	default: // As mostly. No timer is made, of which hundreds that end at once upset Go's race detector.
		w.then(w.goOn)
	}
}

// rest waits for as long as after a failure, and before that for the pause if there is one. Then everything begins anew.
func (w *watcher) rest() {
	if w.pause != nil {
		w.pause.wait(w.ctx)
		w.pause = nil
	}
	newPause(w.retry.next()).wait(w.ctx)
	w.then(w.begin)
}

// restAndGoOn waits for as long as after a failure. What is known is as good as it was.
func (w *watcher) restAndGoOn() {
	newPause(w.retry.next()).wait(w.ctx)
	w.then(w.goOn)
}

// then takes the next step, unless the watcher's context has ended. It does so on a new stack: a goroutine keeps what its
// deepest call took, and most of these wait.
func (w *watcher) then(step func()) {
	if w.ctx.Err() != nil {
		w.cache.wg.Done()
		return
	}
	go step()
}

// list reads the object.
func (w *watcher) list() error {
	o := w.beginList()
	err := w.read(o)
	if isOutdated(o, err) {
		w.version = latestVersion
		err = w.read(w.beginList())
	}
	return err
}

// read reads the object as the options say.
func (w *watcher) read(o metav1.ListOptions) error {
	ctx, cancel := w.beginRequest()
	defer cancel()
	ctx, decoded := flowcontrol.Hold(ctx)
	defer decoded()
	found, err := w.ask(ctx, o)
	if err != nil {
		if !isOutdated(o, err) {
			w.noteOutcome(err)
		}
		return err
	}
	w.denied = time.Time{} // That all is well is for the watch to say, which may be refused where lists are not.
	w.noteList()
	w.version = found.version
	if found.object == nil {
		w.lose()
		return nil
	}
	w.take(found.object)
	return nil
}

// ask asks for the object. Who may not list it but get it is answered by a get.
func (w *watcher) ask(ctx context.Context, o metav1.ListOptions) (listed, error) {
	if err := w.cache.cfg.Allow(ctx, w.key.Identity, w.key.Ref); err != nil {
		return listed{}, err
	}
	found, err := w.object.list(ctx, o)
	w.canList, w.polls = err == nil, false
	if !apierrors.IsForbidden(err) {
		return found, err
	}
	found, getErr := w.object.get(ctx)
	if apierrors.IsForbidden(getErr) {
		return listed{}, w.denial(err) // What the list lacks is what is to be granted.
	}
	w.polls = getErr == nil
	return found, getErr
}

// open opens a watch. Who may only read the object has it listed again after a while.
func (w *watcher) open() (*stream, error) {
	switch {
	case w.crowded > 0:
		return nil, w.waitForRoom()
	case w.polls:
		return nil, w.poll()
	}
	if err := w.allow(); err != nil {
		w.noteOutcome(err)
		return nil, err
	}
	o, asked := w.options(), time.Now()
	ctx, err := w.beginWatch(o)
	if err != nil {
		return nil, err
	}
	body, err := w.endAsking(w.object.watch(ctx, o))
	if isOutdated(o, err) || isHangup(err) || errors.Is(err, errListAnew) {
		return nil, err // Nothing is wrong, or the list that comes next tells what.
	}
	if apierrors.IsForbidden(err) {
		if w.canList {
			return nil, w.poll()
		}
		return nil, err // The list that comes next tells whether everything is forbidden.
	}
	w.canList = false // It was said before this, and how long ago nobody knows.
	w.noteOutcome(err)
	if err != nil {
		return nil, err
	}
	lasts := time.Duration(*o.TimeoutSeconds) * time.Second
	return &stream{ctx: ctx, body: body, decoder: w.cache.decoder, asked: asked, lasts: lasts}, nil
}

// options are those of the next watch. That of a pod's is opened anew now and then, by which the API server decides anew
// whether the pod may read. Jitter keeps the objects of a node apart.
func (w *watcher) options() metav1.ListOptions {
	lasts := driverWatch + rand.N(driverWatch) //nolint:gosec // It is no secret.
	if w.key.Identity != identity.Driver() {
		lasts = wait.Jitter(w.cache.cfg.Recheck*2/3, 1)
	}
	seconds := int64(lasts.Seconds())
	return metav1.ListOptions{ResourceVersion: w.version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds}
}

// next takes the event that has begun to come. Events of no known sort, or about something else, are passed over.
func (w *watcher) next(s *stream) error {
	e, err := s.next()
	if err != nil {
		return err
	}
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	s.hasBrought = true
	o, ok := keptOf(w.key.Ref, e)
	if !ok {
		return nil
	}
	w.noteSign(e.Type)
	switch e.Type {
	case watch.Added, watch.Modified:
		w.take(o)
	case watch.Deleted:
		w.lose()
	default: // A bookmark brings a version and nothing else.
	}
	w.version = o.meta().ResourceVersion
	return nil
}

// close ends a stream and returns why it is over: nil if it ended in good order, with its connection, or because it was
// given up. How it goes on is then for who opens the next one.
func (w *watcher) close(s *stream, err error) error {
	if s.ctx.Err() != nil || isHangup(err) {
		err = nil
	}
	w.noteEnd() // Before the body is closed, which may otherwise wait for a connection that nobody reads.
	_ = s.body.Close()
	return err
}

// isOutdated reports whether a request that named a version did not succeed only because of it: one that the server has
// forgotten, or has not come to since it was restored. The object is then listed, and nothing is wrong.
func isOutdated(o metav1.ListOptions, err error) bool {
	return o.ResourceVersion != latestVersion && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge))
}

// isHangup reports whether an error is how a connection ends.
func isHangup(err error) bool {
	return utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
}

// allow returns nil if a watch may be asked for.
func (w *watcher) allow() error {
	ctx, cancel := w.beginRequest()
	defer cancel()
	return w.cache.cfg.Allow(ctx, w.key.Identity, w.key.Ref)
}

// poll has it listed again after a while: soon at first, since the refusal may be the server's mistake, and soon while the
// object may be about to be created again.
func (w *watcher) poll() error {
	now := time.Now()
	if w.unwatched.IsZero() {
		w.unwatched = now
	}
	since := now.Sub(w.unwatched)
	isJustGone := false
	w.cache.update(w, func(s *Snapshot) bool {
		before := *s
		isJustGone = !s.Found && now.Sub(s.Changed) < AbsenceTime
		s.Err, s.Revoked, s.Polled = nil, false, since >= w.doubt()
		return before.Err != nil || before.Polled != s.Polled
	})
	rest := min(max(firstRetry, since), longestPoll, w.cache.cfg.Recheck)
	if isJustGone {
		rest, w.retry = firstRetry, retry{}
	}
	w.pause = newPause(wait.Jitter(rest, pollJitter))
	return errListAnew
}

// take keeps what is of use of the object, if there is room for it.
func (w *watcher) take(o kept) {
	content := o.content(w.key.Ref)
	if !w.admit(content) {
		return
	}
	w.cache.update(w, func(s *Snapshot) bool {
		same := s.Synced && s.Found && s.Content.UID == content.UID &&
			s.Content.ResourceVersion == content.ResourceVersion
		if same {
			return false
		}
		s.Synced, s.Found, s.Content, s.Changed = true, true, content, time.Now()
		if content.Immutable {
			s.Err, s.Revoked, s.Polled = nil, false, false // Nothing is missed, and who may read it was just decided.
		}
		return true
	})
}

// lose remembers that there is no such object.
func (w *watcher) lose() {
	w.dismiss()
	w.cache.update(w, func(s *Snapshot) bool {
		if s.Synced && !s.Found {
			return false
		}
		s.Synced, s.Found, s.Content, s.Changed = true, false, api.Content{}, time.Now()
		return true
	})
}

// Package objectwatch follows single objects of the API server, and all objects that a selector
// finds: it lists and watches each object by its name, or each selection by its labels, retries,
// and replaces watches that have died silently.
//
// It does not know the content of an object, or what may be done with it.
package objectwatch

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

// QuietTime is how long a quiet watch stays open at least, unless there is a reason to reopen it
// earlier. The kubelet uses the same time.
const QuietTime = 30 * time.Minute

// Kind is a kind of objects. Its followers share one.
type Kind struct {
	// Group is empty for the core group. Name is singular and in lower case.
	Group, Name string
	// Object and List are an empty object and an empty list; they are copied.
	Object, List runtime.Object
}

func (k *Kind) resource() string { return k.Name + "s" }

// Target is the object to follow, or the selection of objects.
type Target struct {
	// Client is a client of the group and version of the kind.
	Client rest.Interface
	Kind   *Kind
	// Namespace is empty for objects of the cluster, and for a selection in all namespaces.
	Namespace, Name string
	// Selector is the text of a label selector. If it is set, Name is empty.
	Selector string
	// Reopen is after how long a watch is opened again, by which the API server decides again
	// whether it is allowed; jitter at most doubles it. At least two seconds.
	Reopen time.Duration
	// Asker describes the requests; nil: they are routine.
	Asker flowcontrol.Asker
}

// Handler receives the state of one object. One goroutine at a time calls it.
type Handler interface {
	// Allow returns nil if the next request may be made, else the error for [Handler.Outcome].
	Allow(ctx context.Context) error
	// Found receives the object. If it returns a pause, the handler could not take the object,
	// and the object is listed again after the pause.
	Found(o metav1.Object) *Pause
	// Missing reports that the object does not exist.
	Missing()
	// Outcome receives the error of a request that failed, or nil when a watch was opened.
	Outcome(err error)
}

// Poller is a [Handler] of an object that is read again and again if it may be read, but not be
// listed or watched.
type Poller interface {
	// Polled reports that the object was read instead of watched, and for how long watches have
	// been refused. It returns the longest time until the next read; zero: it is read soon.
	Polled(since time.Duration) (longest time.Duration)
	// Denied returns the error for [Handler.Outcome] when the object may neither be listed nor
	// read.
	Denied(err error) error
}

// Group follows objects, and looks after their watches.
type Group struct {
	parameters runtime.ParameterCodec // Of requests.
	decoder    runtime.Decoder        // Of events.
	running    sync.WaitGroup         // Counts the followers that run.

	mu        sync.Mutex      // Guards the fields below, and the watchdogs; never held while waiting or calling out.
	ctx       context.Context // Run's, which bounds every request. It is set before a follower begins, and then fixed.
	isRunning bool            // Run was called, and its context has not ended.
	followers map[*Follower]struct{}
	bookmarks map[*Kind]time.Time // When a watch of the kind last received a bookmark.
	replaced  int                 // How many watches were found dead.
}

// New returns a group without followers.
func New(types *kubeclient.Types) *Group {
	return &Group{
		followers: map[*Follower]struct{}{}, bookmarks: map[*Kind]time.Time{},
		parameters: types.Parameters(), decoder: types.Codecs().UniversalDeserializer(),
	}
}

// Run runs the followers that are started before and after, and replaces watches that have died
// silently, until ctx ends. It returns nil when all followers have ended, and must be called once.
func (g *Group) Run(ctx context.Context) error {
	g.begin(ctx)
	defer g.end()
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			g.checkWatches()
		case <-ctx.Done():
			return nil
		}
	}
}

func (g *Group) begin(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx, g.isRunning = ctx, true
	for f := range g.followers {
		f.beginLocked() //nolint:contextcheck // It takes the group's, which this is.
	}
}

// end waits for all followers. No other one begins.
func (g *Group) end() {
	g.mu.Lock()
	g.isRunning = false
	g.mu.Unlock()
	g.running.Wait()
}

// Replaced returns how many watches were found dead and replaced so far.
func (g *Group) Replaced() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.replaced
}

// Silence returns the longest time for which the API server has delivered nothing about an object,
// whether a watch of it is open or not; zero when no object is followed.
func (g *Group) Silence() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var longest time.Duration
	for f := range g.followers {
		if heard := f.watchdog.heard; !heard.IsZero() {
			longest = max(longest, time.Since(heard))
		}
	}
	return longest
}

// checkWatches stops the watches that are dead, and those whose objects are to be listed again.
func (g *Group) checkWatches() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for f := range g.followers {
		w := &f.watchdog
		switch {
		case w.isGivenUp:
			continue
		case w.isDead(now, g.bookmarks[f.target.Kind]):
			g.replaced++
		case w.isListOld(now):
		case w.isUnconfirmed(now):
			w.checks++
		default:
			continue
		}
		w.giveUp()
	}
}

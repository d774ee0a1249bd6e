package objectwatch

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Collector is a [Handler] of all objects that the selector of a target finds. Its Found receives
// the objects of events, and its Missing is not called.
type Collector interface {
	Handler
	// BeginList reports that a list begins. If it fails, another one begins later.
	BeginList()
	// Listed receives one object of the list. If it returns a pause, the collector could not take
	// the object, and the next list begins after the pause.
	Listed(o metav1.Object) *Pause
	// EndList reports that the list is complete. Objects that it does not have do not match any
	// more, or are gone.
	EndList()
	// Unlabelled receives the last state of an object that no longer matches, and that is known to
	// exist.
	Unlabelled(o metav1.Object)
	// Deleted receives the last state of an object that no longer matches, and that may not exist.
	Deleted(o metav1.Object)
}

// A list is read in pages, because somebody may have labelled many objects, or large ones.
const (
	// objectsPerPage is how many objects a page has at first. If they are larger than largestPage
	// together, the page is read again with fewer.
	objectsPerPage = 100
	fewerPerPage   = 4
	// largestPage is the most bytes that a page may have. Every object fits.
	largestPage = 4 << 20
)

// After an object has left a selection, the API server is asked whether the object exists. The
// question is short, and left out if many objects go at once: then they count as deleted.
const (
	existenceTimeout = 2 * time.Second
	questionsAtOnce  = 10
)

// questions limits the questions about single objects. The zero value is ready.
type questions struct {
	since time.Time
	count int
}

// take reports whether one more may be asked.
func (q *questions) take() bool {
	if now := time.Now(); now.Sub(q.since) >= existenceTimeout {
		q.since, q.count = now, 0
	}
	q.count++
	return q.count <= questionsAtOnce
}

// collect lists all objects of the target, and passes them to the collector.
func (f *Follower) collect() error {
	f.collector.BeginList()
	o := metav1.ListOptions{ResourceVersion: latestVersion, Limit: objectsPerPage}
	for {
		next, err := f.collectPage(&o)
		switch {
		case err != nil:
			f.handler.Outcome(err)
			return err
		case f.pause != nil:
			f.noteList()
			return errRelist
		case next.Continue == "":
			f.noteList()
			f.version = next.ResourceVersion
			f.collector.EndList()
			return nil
		}
		o.Continue = next.Continue
	}
}

// collectPage passes the objects of one page to the collector.
func (f *Follower) collectPage(o *metav1.ListOptions) (metav1.ListMeta, error) {
	ctx, cancel := f.BeginRequest()
	defer cancel()
	if err := f.handler.Allow(ctx); err != nil {
		return metav1.ListMeta{}, err
	}
	list, err := f.page(ctx, o)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	f.pause = nil
	err = meta.EachListItem(list, func(item runtime.Object) error {
		found, err := meta.Accessor(item)
		if err == nil && f.pause == nil {
			f.pause = f.collector.Listed(found)
		}
		return err
	})
	return metav1.ListMeta{ResourceVersion: about.GetResourceVersion(), Continue: about.GetContinue()}, err
}

// page returns one page of the list. It makes the limit smaller if the page is too large.
func (f *Follower) page(ctx context.Context, o *metav1.ListOptions) (runtime.Object, error) {
	for {
		data, err := f.readList(ctx, *o)
		switch {
		case err != nil:
			return nil, err
		case len(data) <= largestPage:
			list, _, err := f.group.decoder.Decode(data, nil, nil)
			if err != nil {
				return nil, fmt.Errorf("decode a list of %s: %w", f.target.Kind.resource(), err)
			}
			return list, nil
		case o.Limit == 1:
			return nil, errTooLong()
		}
		o.Limit = max(1, o.Limit/fewerPerPage)
	}
}

// readList returns the bytes of a list: at most one more than [largestPage].
func (f *Follower) readList(ctx context.Context, o metav1.ListOptions) ([]byte, error) {
	body, err := f.selecting(o).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // Everything that matters was read.
	return io.ReadAll(io.LimitReader(body, largestPage+1))
}

// leave passes an object that no longer matches to the collector.
func (f *Follower) leave(s *stream, o metav1.Object) {
	if f.questions.take() && f.exists(s.ctx, o) {
		f.collector.Unlabelled(o)
		return
	}
	f.collector.Deleted(o)
}

// exists reports whether an object that has left the selection is known to exist. The event is the
// same if the object was deleted and if it lost a label.
func (f *Follower) exists(ctx context.Context, o metav1.Object) bool {
	ctx, cancel := context.WithTimeout(ctx, existenceTimeout)
	defer cancel()
	options := metav1.ListOptions{
		ResourceVersion: o.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, o.GetName()).String(),
	}
	list := f.target.Kind.List.DeepCopyObject()
	err := f.target.Client.Get().Namespace(o.GetNamespace()).Resource(f.target.Kind.resource()).
		VersionedParams(&options, f.group.parameters).Do(ctx).Into(list)
	if err != nil {
		return false
	}
	isFound := false
	_ = meta.EachListItem(list, func(item runtime.Object) error { // An error means that it was not found.
		found, err := meta.Accessor(item)
		isFound = isFound || err == nil && found.GetUID() == o.GetUID()
		return err
	})
	return isFound
}

// deliver passes the object of an event to the collector.
func (f *Follower) deliver(s *stream, kind watch.EventType, o metav1.Object) {
	switch kind {
	case watch.Added, watch.Modified:
		f.take(o)
	case watch.Deleted:
		f.leave(s, o)
	default: // A bookmark has a version and nothing else.
	}
}

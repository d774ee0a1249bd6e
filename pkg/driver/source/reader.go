package source

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// longestPoll is the longest time between two reads of an object that cannot be watched. The
// kubelet syncs a pod about once a minute.
const longestPoll = 20 * time.Second

// reader updates one item's snapshot with what its follower reads.
type reader struct {
	cache    *Cache
	key      Key
	item     *item
	follower *objectwatch.Follower // Set before it is started.

	denials access.Denials
}

var (
	_ objectwatch.Handler = (*reader)(nil)
	_ objectwatch.Poller  = (*reader)(nil)
	_ flowcontrol.Asker   = (*reader)(nil)
)

// startLocked starts a reader of an item. c.mu is held.
func (c *Cache) startLocked(key Key, it *item, client rest.Interface) {
	r := &reader{cache: c, key: key, item: it}
	var handler objectwatch.Handler = r
	if key.IsSelection() {
		handler = newCollector(r)
	}
	reopen := objectwatch.QuietTime
	if key.Identity != identity.Driver() { // The driver's rights hardly change.
		reopen = c.cfg.Recheck * 2 / 3
	}
	r.follower = c.group.Follower(objectwatch.Target{
		Client: client, Kind: c.kinds[key.Ref.Kind], Namespace: key.Ref.Namespace, Name: key.Ref.Name,
		Selector: selectorOf(key), Reopen: reopen, Asker: r,
	}, handler)
	it.reader = r
	r.follower.Start()
}

// stopLocked stops the reader of an item, if it has one. c.mu is held.
func (it *item) stopLocked() {
	if it.reader != nil {
		it.reader.follower.Stop()
		it.reader = nil
	}
}

// Allow implements [objectwatch.Handler].
func (r *reader) Allow(ctx context.Context) error {
	return r.cache.cfg.Allow(ctx, r.key.Identity, r.key.Ref)
}

// Found implements [objectwatch.Handler]. It stores the content if there is room for it.
func (r *reader) Found(o metav1.Object) *objectwatch.Pause {
	r.denials.Note(r.key.Identity, nil)
	content := contentOf(o)
	marks := release.MarksOf(o.GetAnnotations(), o.GetLabels(), content.Data)
	if pause := r.admit(costOf(content, sizeOf(o), int64(marks.Size()))); pause != nil {
		return pause
	}
	r.update(func(s *Snapshot) bool {
		same := s.Synced && s.Found && s.Content.UID == content.UID &&
			s.Content.ResourceVersion == content.ResourceVersion
		if same {
			return false
		}
		s.Synced, s.Found, s.Content, s.Release, s.Changed = true, true, content, marks, time.Now()
		if s.isFinished() {
			s.Err, s.Revoked, s.Polled = nil, false, false // No change can be missed, and the read was allowed.
		}
		return true
	})
	return nil
}

// Missing implements [objectwatch.Handler].
func (r *reader) Missing() {
	r.denials.Note(r.key.Identity, nil)
	r.dismiss()
	r.update(func(s *Snapshot) bool {
		if s.Synced && !s.Found {
			return false
		}
		s.Synced, s.Found, s.Content, s.Release, s.Changed = true, false, api.Content{}, nil, time.Now()
		return true
	})
}

// Polled implements [objectwatch.Poller]. The object is read soon while it may be about to be
// created again.
func (r *reader) Polled(since time.Duration) (longest time.Duration) {
	isJustGone := false
	r.update(func(s *Snapshot) bool {
		before := *s
		isJustGone = !s.Found && time.Since(s.Changed) < AbsenceTime
		s.Err, s.Revoked, s.Polled = nil, false, since >= r.doubt()
		return before.Err != nil || before.Polled != s.Polled
	})
	if isJustGone {
		return 0
	}
	return min(longestPoll, r.cache.cfg.Recheck)
}

// update changes the item's snapshot, and calls [Config.Changed] if change reports a difference. It
// logs when each sort of trouble begins, and when trouble ends. Updates of a stopped reader are
// dropped: its item may have a later reader.
func (r *reader) update(change func(*Snapshot) (changed bool)) {
	r.cache.mu.Lock()
	if r.follower.IsStopped() {
		r.cache.mu.Unlock()
		return
	}
	it := r.item
	before := it.now.Err
	changed := change(&it.now)
	it.now.noteFailing()
	now := it.now
	it.isNew = it.isNew && !now.Synced
	if now.Synced {
		it.isAwaited.Store(false)
	}
	if now.isFinished() && r.key.Identity == identity.Driver() {
		it.stopLocked() // A pod's reader continues: its access may change.
	}
	r.cache.mu.Unlock()
	if !sameSort(before, now.Err) {
		r.log(now.Err)
	}
	if changed {
		r.cache.cfg.Changed(r.key)
	}
}

// Lane implements [flowcontrol.Asker]: new volumes wait for the first read of an object, and live
// volumes have their files.
func (r *reader) Lane() flowcontrol.Lane {
	if r.item.isAwaited.Load() {
		return flowcontrol.Awaited
	}
	return flowcontrol.Routine
}

// Tenant implements [flowcontrol.Asker]: the namespace of the pods that read the object.
func (r *reader) Tenant() string {
	if namespace := r.key.Identity.Namespace; namespace != "" {
		return namespace
	}
	return r.key.Ref.Namespace // The driver's own identity reads only the pod's namespace.
}

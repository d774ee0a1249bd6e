package source

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
)

// tooMuchRest is about how long a selection that has too much is not read.
const tooMuchRest = 30 * time.Second

// collector updates the snapshot of a selection with what the follower reads.
type collector struct {
	reader *reader

	mu      sync.Mutex // Guards the fields below; never held while waiting, calling out, or taking the cache's lock.
	members map[api.Ref]Member
	// staged are the members of the list that is being read; nil between lists.
	staged map[api.Ref]Member
	total  totals // Of members.
	coming totals // Of staged. Its cost is that of the members that differ.
}

// totals are those of members that exist. The cost is also that of members that are gone.
type totals struct {
	objects, bytes int
	cost           int64
}

func (t *totals) add(m Member) {
	t.cost += m.cost
	if m.Gone.IsZero() {
		t.objects++
		t.bytes += m.bytes
	}
}

var _ objectwatch.Collector = (*collector)(nil)

func newCollector(r *reader) *collector { return &collector{reader: r, members: map[api.Ref]Member{}} }

// Allow implements [objectwatch.Handler].
func (c *collector) Allow(ctx context.Context) error { return c.reader.Allow(ctx) }

// Outcome implements [objectwatch.Handler].
func (c *collector) Outcome(err error) {
	if err != nil {
		c.discard()
	}
	c.reader.Outcome(err)
}

// Missing implements [objectwatch.Handler].
func (*collector) Missing() {}

// BeginList implements [objectwatch.Collector].
func (c *collector) BeginList() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.staged, c.coming = map[api.Ref]Member{}, totals{}
}

// discard drops what was read of a list that has failed.
func (c *collector) discard() {
	c.mu.Lock()
	wasStaged := c.staged != nil
	c.staged = nil
	c.mu.Unlock()
	if wasStaged {
		c.settle()
	}
}

// Listed implements [objectwatch.Collector]. An object that has not changed is stored once.
func (c *collector) Listed(o metav1.Object) *objectwatch.Pause {
	m := memberFrom(o)
	c.mu.Lock()
	known, isKnown := c.members[m.Content.Ref]
	isKnown = isKnown && known.isSameAs(m)
	cost := c.coming.cost
	if isKnown {
		m = known
		m.Gone = time.Time{}
	} else {
		cost += m.cost
	}
	c.coming.add(m)
	c.coming.cost = cost
	wanted := totals{objects: c.coming.objects, bytes: c.coming.bytes, cost: c.total.cost + cost}
	c.mu.Unlock()
	if pause := c.admit(wanted); pause != nil {
		c.discard()
		return pause
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.staged[m.Content.Ref] = m
	return nil
}

// EndList implements [objectwatch.Collector].
func (c *collector) EndList() {
	c.reader.denials.Note(c.reader.key.Identity, nil)
	now := time.Now()
	c.mu.Lock()
	for ref, m := range c.members {
		if _, found := c.staged[ref]; found {
			continue
		}
		if m.Gone.IsZero() {
			m.Gone = now
			time.AfterFunc(AbsenceTime, c.expire)
		}
		c.staged[ref] = m
	}
	c.setLocked(c.staged)
	c.staged = nil
	c.mu.Unlock()
	c.settle()
	c.publish()
}

// Found implements [objectwatch.Handler].
func (c *collector) Found(o metav1.Object) *objectwatch.Pause {
	c.reader.denials.Note(c.reader.key.Identity, nil)
	m := memberFrom(o)
	wanted, differs := c.with(m)
	if !differs {
		return nil
	}
	if pause := c.admit(wanted); pause != nil {
		return pause
	}
	c.mu.Lock()
	next := maps.Clone(c.members) // Others may have expired meanwhile.
	next[m.Content.Ref] = m
	c.setLocked(next)
	c.mu.Unlock()
	c.settle()
	c.publish()
	return nil
}

// with returns the totals with one more member, or with another version of one, and whether that
// makes a difference.
func (c *collector) with(m Member) (wanted totals, differs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, found := c.members[m.Content.Ref]
	if found && known.Gone.IsZero() && known.isSameAs(m) {
		return c.total, false
	}
	for ref, other := range c.members {
		if ref != m.Content.Ref {
			wanted.add(other)
		}
	}
	wanted.add(m)
	return wanted, true
}

// Unlabelled implements [objectwatch.Collector].
func (c *collector) Unlabelled(o metav1.Object) {
	c.replace(o, func(members map[api.Ref]Member, m Member) { delete(members, m.Content.Ref) })
}

// Deleted implements [objectwatch.Collector].
func (c *collector) Deleted(o metav1.Object) {
	c.replace(o, func(members map[api.Ref]Member, m Member) {
		m.Gone = time.Now()
		members[m.Content.Ref] = m
		time.AfterFunc(AbsenceTime, c.expire)
	})
}

// replace changes the members, if the object is one that exists.
func (c *collector) replace(o metav1.Object, change func(map[api.Ref]Member, Member)) {
	ref := contentOf(o).Ref
	c.mu.Lock()
	m, found := c.members[ref]
	if !found || m.Content.UID != string(o.GetUID()) || !m.Gone.IsZero() {
		c.mu.Unlock()
		return
	}
	next := maps.Clone(c.members)
	change(next, m)
	c.setLocked(next)
	c.mu.Unlock()
	c.settle()
	c.publish()
}

// expire ends the membership of objects that are gone for long enough.
func (c *collector) expire() {
	c.mu.Lock()
	next := maps.Clone(c.members)
	maps.DeleteFunc(next, func(_ api.Ref, m Member) bool {
		return !m.Gone.IsZero() && time.Since(m.Gone) >= AbsenceTime
	})
	isOther := len(next) != len(c.members)
	c.setLocked(next)
	c.mu.Unlock()
	if isOther {
		c.settle()
		c.publish()
	}
}

func (c *collector) setLocked(members map[api.Ref]Member) {
	c.members, c.total = members, totals{}
	for _, m := range members {
		c.total.add(m)
	}
}

// admit takes the room for members that are to be stored. If they are too many, or if there is no
// room, the members stay as they are, and the selection is listed again after the pause.
func (c *collector) admit(wanted totals) *objectwatch.Pause {
	if wanted.objects <= MaxSelected && wanted.bytes <= MaxSelectedBytes {
		return c.reader.admit(BytesOf(c.reader.key) + wanted.cost)
	}
	err := &TooMuchError{Objects: wanted.objects, Bytes: wanted.bytes}
	c.reader.update(func(s *Snapshot) bool {
		isChange := !isTooMuch(s.Err)
		s.Err = err
		return isChange
	})
	return objectwatch.NewPause(wait.Jitter(tooMuchRest, restJitter))
}

func isTooMuch(err error) bool {
	_, ok := errors.AsType[*TooMuchError](err)
	return ok
}

// settle makes the account as large as what is stored.
func (c *collector) settle() {
	c.mu.Lock()
	cost := BytesOf(c.reader.key) + c.total.cost
	c.mu.Unlock()
	if isCurrent, _ := c.reader.standing(); isCurrent {
		c.reader.item.account.Force(cost)
	}
}

// publish makes the members known.
func (c *collector) publish() {
	c.reader.update(func(s *Snapshot) bool {
		c.mu.Lock()
		members := slices.SortedFunc(maps.Values(c.members), compareAge)
		c.mu.Unlock()
		content := contentOfAll(c.reader.key.Ref, members)
		if s.Synced && s.Content.ResourceVersion == content.ResourceVersion {
			s.Members = members // One may be gone, or there again.
			return false
		}
		s.Synced, s.Found, s.Members, s.Content, s.Changed = true, len(members) > 0, members, content, time.Now()
		return true
	})
}

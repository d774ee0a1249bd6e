package volume

import (
	"errors"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// selectionKeys returns the selections of a volume of the pod, each once.
func selectionKeys(pod api.Pod, spec api.Spec, choose func(api.Pod, api.Ref) identity.Identity) (keys []source.Key) {
	for _, src := range spec.Sources {
		for _, ref := range src.Ranges() {
			key := source.Key{Identity: choose(pod, ref), Ref: ref, Selector: src.Selection.Selector}
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// isOf reports whether a source has the objects of a key.
func isOf(src api.Source, key source.Key) bool {
	if !key.IsSelection() || src.Selection == nil {
		return !key.IsSelection() && src.Selection == nil && src.Ref == key.Ref
	}
	return src.Selection.Selector == key.Selector && slices.Contains(src.Ranges(), key.Ref)
}

// memberKey returns the key of one member of a selection, as if it were a named source.
func memberKey(of source.Key, m source.Member) source.Key {
	return source.Key{Identity: of.Identity, Ref: m.Content.Ref}
}

// setMembers stores the members of selections that are or were released, as if each were a source.
// One that many selections have is stored once, or twice if only some of them show it as released.
func (l *look) setMembers(copies map[source.Key]*stableCopy, then map[source.Key]source.Snapshot) {
	type state struct {
		key        source.Key
		isReleased bool
	}
	stored := map[state]bool{}
	for i, key := range l.keys {
		for _, m := range l.now[i].Members {
			of := memberKey(key, m)
			s := seen{key: of, isMember: true, copy: copies[of], now: source.Snapshot{
				Synced: true, Found: true, Content: m.Content, Release: m.Release, Changed: l.now[i].Changed,
			}}
			if s.copy == nil && !isReleased(s.now) {
				continue
			}
			if stored[state{of, isReleased(s.now)}] {
				continue
			}
			stored[state{of, isReleased(s.now)}] = true
			s.then = then[of]
			if _, isThere := l.memberAt[of]; !isThere {
				if l.memberAt == nil {
					l.memberAt = map[source.Key]int{}
				}
				l.memberAt[of] = len(l.members)
			}
			l.members = append(l.members, s)
		}
	}
}

// selected collects the objects of the selections of one plan. The zero value is ready.
type selected struct {
	objects  treebuilder.Selected
	versions []api.Content // One for each selection, and those of released members: see addMembers.
	unread   []*unreadError
	count    int
	bytes    int
}

// add adds the members of one selection in a look. It returns an [atomicdir.EarlyError] for a while
// when they are read first after a restart: an object that was deleted just before may be about to
// be created again.
func (c *selected) add(l look, rs releases, s seen) error {
	isFirst := l.projected == nil || l.wasRecalled(s.key)
	if until := s.now.Changed.Add(source.AbsenceTime); l.isLive && isFirst && time.Now().Before(until) {
		return &atomicdir.EarlyError{Until: until}
	}
	c.versions = append(c.versions, c.addMembers(l, rs, s))
	return nil
}

// addMembers adds the members, and returns what stands for their contents: a version that differs
// if one of them does. The contents of released members are for the status. Nothing is made for a
// volume that has too much already.
func (c *selected) addMembers(l look, rs releases, s seen) api.Content {
	all := api.Content{Ref: s.key.Ref.Selecting(s.key.Selector)}
	if c.isTooMuch() {
		return all
	}
	var shown []api.Content
	var objects []treebuilder.Object
	for _, m := range s.now.Members {
		if !l.isLive && !m.Gone.IsZero() {
			continue // A new volume has no files of it.
		}
		content, isReleased, problem := l.memberContent(rs, memberKey(s.key, m), m)
		if problem != nil {
			c.unread = append(c.unread, problem)
			continue
		}
		c.count++
		c.bytes += content.Size()
		if content.ChangedAt.After(all.ChangedAt) {
			all.ChangedAt = content.ChangedAt
		}
		version := content
		if isReleased {
			c.versions = append(c.versions, content)
			version = asShown(rs, m.Content, content)
		}
		shown = append(shown, version)
		objects = append(objects, treebuilder.Object{Content: content, Created: m.Created, Annotations: m.Annotations})
	}
	c.addObjects(l.spec.Sources, s.key, objects)
	all.ResourceVersion = api.VersionOfAll(shown)
	return all
}

// asShown returns what stands for a released member: the object itself if the pods get what it has,
// also by the stable copy.
func asShown(rs releases, now, content api.Content) api.Content {
	if r := rs.status(now.Ref); r != nil && r.IsShown {
		return now
	}
	return content
}

// addObjects adds the members of one selection to each source that has them: the same list to all.
func (c *selected) addObjects(sources []api.Source, key source.Key, objects []treebuilder.Object) {
	if c.objects == nil {
		c.objects = treebuilder.Selected{}
	}
	for i, src := range sources {
		if isOf(src, key) {
			c.objects[i] = append(c.objects[i], objects)
		}
	}
}

// isTooMuch reports whether the volume has more than a volume can have.
func (c *selected) isTooMuch() bool {
	return c.count > source.MaxSelected || c.bytes > source.MaxSelectedBytes
}

// prepare plans the files, unless the volume would have too much. It adds what stands for the
// selections to the contents.
func (c *selected) prepare(spec api.Spec, group *int, contents map[api.Ref]api.Content) (treebuilder.Plan, error) {
	if c.isTooMuch() {
		return treebuilder.Plan{}, &source.TooMuchError{Objects: c.count, Bytes: c.bytes}
	}
	plan, err := treebuilder.PrepareSelected(spec, group, contents, c.objects)
	for _, version := range c.versions { // No files are made of them.
		if _, isSource := contents[version.Ref]; !isSource {
			contents[version.Ref] = version
		}
	}
	return plan, err
}

// memberContent returns the content of a member for the pods of the projection, and whether the
// member is or was released.
func (l look) memberContent(
	rs releases, key source.Key, m source.Member,
) (content api.Content, isReleased bool, problem *unreadError) {
	at, isMember := l.memberAt[key]
	if !isMember {
		return m.Content, false, nil
	}
	content, problem = l.content(l.members[at], rs)
	return content, true, problem
}

func isTooMuch(err error) bool {
	_, ok := errors.AsType[*source.TooMuchError](err)
	return ok
}

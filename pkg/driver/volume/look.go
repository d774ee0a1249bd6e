package volume

import (
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// look is what is known at one moment of everything that decides about the files of a projection.
// A sync decides by one look, so it never sees one object before a change and another one after
// it. The methods of look read nothing else and change nothing.
type look struct {
	spec      api.Spec
	group     *int
	isLive    bool
	projected []projected        // The objects in the files, sorted; nil if they are not known.
	keys      []source.Key       // Of the sources, each once.
	now       []source.Snapshot  // Of the sources, as keys.
	copies    []*stableCopy      // Of the sources, as keys, nil for those without; nil if no source has one.
	then      []source.Snapshot  // Of these copies, as keys.
	members   []seen             // The members of selections that are or were released.
	memberAt  map[source.Key]int // Where each of them is first; nil for none.
	volumes   []*volume          // Whose pods have the files.
	dispute   dispute            // Of the copies.
	// denied are selections whose objects are not known but from the files, and recalled are these
	// objects: see [held.recall].
	denied   []source.Key
	recalled treebuilder.Selected
}

// seen is one source in a look.
type seen struct {
	key  source.Key
	now  source.Snapshot
	copy *stableCopy     // Of a source that is or was released, else nil.
	then source.Snapshot // The state of that copy.
	// isMember means that it is a member of a selection.
	isMember bool
}

// look looks at all sources of the projection, and at the copies that it uses.
func (h held) look() look {
	l := look{
		spec: h.spec, group: h.group, isLive: h.isLive(), projected: h.files.projected, keys: h.keys, volumes: h.volumes,
	}
	if len(h.copies) == 0 {
		l.now = h.node.sources.Look(h.keys...)
		l.setMembers(nil, nil)
		return l
	}
	n := len(h.keys)
	keys := slices.Grow(slices.Clone(h.keys), n)
	l.copies = make([]*stableCopy, n)
	for i, key := range h.keys {
		c := h.copies[key]
		l.copies[i] = c
		if c != nil {
			key = c.key
		}
		keys = append(keys, key)
	}
	var ofMembers []source.Key
	for key, c := range h.copies {
		if !slices.Contains(h.keys, key) {
			ofMembers, keys = append(ofMembers, key), append(keys, c.key)
		}
	}
	known := h.node.sources.Look(keys...)
	l.now, l.then = known[:n], known[n:2*n]
	then := make(map[source.Key]source.Snapshot, len(ofMembers))
	for i, key := range ofMembers {
		then[key] = known[2*n+i]
	}
	l.setMembers(h.copies, then)
	l.dispute = h.node.disputes.begun(l.releases().dispute(l))
	return l
}

// sources returns what is seen of each source.
func (l look) sources() iter.Seq[seen] {
	return func(yield func(seen) bool) {
		for i, key := range l.keys {
			s := seen{key: key, now: l.now[i]}
			if l.copies != nil && l.copies[i] != nil {
				s.copy, s.then = l.copies[i], l.then[i]
			}
			if !yield(s) {
				return
			}
		}
		for _, s := range l.members {
			if !yield(s) {
				return
			}
		}
	}
}

// keyCount returns how many keys a plan has, at most: each as often as a source has it.
func (l look) keyCount() (count int) {
	keys := make(map[source.Key]int, len(l.keys)) // For any identity.
	for s := range l.sources() {
		if s.isMember {
			continue // Its selections have it.
		}
		all := len(s.now.Content.Data) + len(s.then.Content.Data)
		for _, m := range s.now.Members {
			all += len(m.Content.Data)
			if at, isReleased := l.memberAt[memberKey(s.key, m)]; isReleased {
				all += len(l.members[at].then.Content.Data)
			}
		}
		of := source.Key{Ref: s.key.Ref, Selector: s.key.Selector}
		keys[of] = max(keys[of], all)
	}
	for _, src := range l.spec.Inputs() {
		switch {
		case src.Selection != nil:
			for _, all := range src.Ranges() {
				count += keys[source.Key{Ref: all, Selector: src.Selection.Selector}]
			}
		case len(src.Items) > 0:
			count += len(src.Items)
		default:
			count += keys[source.Key{Ref: src.Ref}]
		}
	}
	return min(count, treebuilder.MostKeys)
}

// plan returns the files that the sources ask for, before anything is rendered, and the objects
// that they come from. The error names everything that is in the way.
func (l look) plan() (treebuilder.Plan, map[api.Ref]api.Content, error) {
	if early := l.awaitPartners(); early != nil {
		return treebuilder.Plan{}, nil, early
	}
	rs := l.releases()
	contents := make(map[api.Ref]api.Content, len(l.keys))
	var chosen selected
	var forgiven []source.Key // They count as optional.
	var unread []*unreadError
	for s := range l.sources() {
		if s.isMember || l.isRecalled(s.key) {
			continue // Its selection has it, or addRecalled.
		}
		switch l.effectOf(s) {
		case access.Remove:
			forgiven = append(forgiven, s.key)
			continue
		case access.Await:
			unread = append(unread, &unreadError{key: s.key})
			continue
		case access.Refuse:
			unread = append(unread, &unreadError{key: s.key, err: s.now.Err})
			forgiven = append(forgiven, s.key) // It is not known to be missing.
			continue
		case access.Serve:
		}
		switch {
		case s.key.IsSelection():
			if err := chosen.add(l, rs, s); err != nil {
				return treebuilder.Plan{}, nil, err
			}
			if l.followsLoss() {
				forgiven = append(forgiven, s.key)
			}
		case s.now.Found:
			content, problem := l.content(s, rs)
			if problem != nil {
				unread = append(unread, problem)
				forgiven = append(forgiven, s.key)
				continue
			}
			contents[s.key.Ref] = content
		case l.isAbsenceEarly(s): // The volume changes as a whole, so all of it waits.
			return treebuilder.Plan{}, nil, &atomicdir.EarlyError{Until: s.now.Changed.Add(source.AbsenceTime)}
		case l.followsLoss():
			forgiven = append(forgiven, s.key)
		}
	}
	chosen.addRecalled(l)
	plan, err := chosen.prepare(l.forgiveDenied(forgive(l.spec, forgiven)), l.group, contents)
	if unread = append(unread, chosen.unread...); len(unread) > 0 {
		return treebuilder.Plan{}, nil, newSourcesError(unread, err)
	}
	return plan, contents, err
}

// effectOf returns what the evidence about the access to a source means for the files.
func (l look) effectOf(s seen) access.Effect {
	return evidenceOf(s.key, s.now).EffectOn(access.Use{IsLive: l.isLive, FollowsLoss: l.followsLoss()})
}

// evidenceOf returns what is known about the access of a key's identity.
func evidenceOf(key source.Key, s source.Snapshot) access.Evidence {
	return access.Evidence{Identity: key.Identity, WasRead: s.Synced, Revoked: s.Revoked, Err: s.Err}
}

// forgive returns the spec with the sources and values of some keys made optional. The spec itself
// stays as it is.
func forgive(spec api.Spec, keys []source.Key) api.Spec {
	var refs []api.Ref
	var selections []source.Key
	for _, key := range keys {
		if key.IsSelection() {
			selections = append(selections, key)
			continue
		}
		refs = append(refs, key.Ref)
	}
	spec = spec.Forgive(refs...)
	if len(selections) == 0 {
		return spec
	}
	spec.Sources = slices.Clone(spec.Sources)
	for i, src := range spec.Sources {
		isForgiven := func(key source.Key) bool { return isOf(src, key) }
		if slices.ContainsFunc(selections, isForgiven) {
			spec.Sources[i].Optional = true
		}
	}
	return spec
}

// isAbsenceEarly reports whether it is too early to count an object as deleted whose content is in
// the files, or may be after a restart.
func (l look) isAbsenceEarly(s seen) bool {
	_, isInFiles := slices.BinarySearchFunc(l.projected, s.key.Ref, projected.compare)
	return l.isLive && (isInFiles || l.projected == nil) && time.Since(s.now.Changed) < source.AbsenceTime
}

// followsLoss reports whether files go with their source. A volume that is being published first
// requires the source.
func (l look) followsLoss() bool { return l.isLive && l.spec.OnDelete == api.OnDeleteRemove }

// lost returns the sources that may no longer be read. A denial that may be a mistake does not
// count.
func (l look) lost() []*unreadError {
	var lost []*unreadError
	for s := range l.sources() {
		if s.now.Revoked || slices.Contains(l.denied, s.key) && l.effectOf(s) == access.Refuse {
			lost = append(lost, &unreadError{key: s.key, err: s.now.Err})
		}
	}
	return lost
}

// removesFiles reports whether files of the volume must go because their source may no longer be
// read.
func (l look) removesFiles() bool {
	return l.followsLoss() && slices.ContainsFunc(l.now, func(s source.Snapshot) bool { return s.Revoked })
}

// withLosses returns the problem of a live volume after a sync that ended with err. It names lost
// sources beside other problems, unless the node is to try again.
func (l look) withLosses(err error) error {
	lost := l.lost()
	sources, ofSources := errors.AsType[*sourcesError](err)
	_, ofMissing := errors.AsType[*treebuilder.MissingError](err)
	switch {
	case err == nil && len(lost) == 0:
		return l.noRoom()
	case len(lost) == 0:
		return err
	case ofSources:
		return sources.with(lost)
	case err == nil, ofMissing:
		return newSourcesError(lost, err)
	}
	return err
}

// noRoom returns an error if there is no room for the new content of a source of the volume, or if
// a selection has too much.
func (l look) noRoom() error {
	isNoRoom := func(err error) bool { return isExhausted(err) || isTooMuch(err) }
	if problem, _ := l.firstUnread(isNoRoom); problem != nil {
		return problem
	}
	return nil
}

// staleness returns why what is known of a source may be out of date, and since when; nil if it is
// not.
func (l look) staleness() (problem *unreadError, since time.Time) {
	return l.firstUnread(func(err error) bool { return err != nil })
}

// firstUnread returns the problem of the first source, or copy of one, whose error matches, and
// since when it has had one.
func (l look) firstUnread(match func(error) bool) (problem *unreadError, since time.Time) {
	for s := range l.sources() {
		if match(s.now.Err) {
			return &unreadError{key: s.key, err: s.now.Err}, s.now.Failing
		}
		if s.copy != nil && match(s.then.Err) {
			return &unreadError{key: s.copy.key, err: s.then.Err}, s.then.Failing
		}
	}
	return nil, time.Time{}
}

// polled returns the sources that are polled.
func (l look) polled() (polled []source.Key) {
	for s := range l.sources() {
		if s.now.Polled {
			polled = append(polled, s.key)
		}
	}
	return polled
}

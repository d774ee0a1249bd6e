package soak

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// level is what a service account may do in a namespace.
type level int

const (
	nothing level = iota
	getOnly
	everything
)

func (l level) String() string { return [...]string{"nothing", "get", "everything"}[l] }

// reader is a service account in a namespace that it reads.
type reader struct{ account, namespace string }

// access is what is known of a reader.
type access struct {
	level   level
	changed time.Time
	// doubted means that since the last rest the reader was allowed nothing, if only for a moment. An API server that starts,
	// and denies what it allows, takes nothing away.
	doubted bool
	// blindTo is what the reader cannot have learned: nothing newer than these versions of objects.
	blindTo map[ref]int
}

// model is what must be true of the node.
type model struct {
	mu      sync.Mutex // Guards everything below, and what objects and volumes have.
	home    string     // The namespace of the pods.
	objects map[ref]*object
	access  map[reader]*access
	pods    map[string]*pod // By name and UID.
	// rested is which version of an object its readers knew at the last rest, at least.
	rested map[watched]int
}

// watched is an object as somebody reads it; the driver itself is the zero reader.
type watched struct {
	by  reader
	ref ref
}

func newModel(home string) *model {
	return &model{
		home: home, objects: map[ref]*object{}, access: map[reader]*access{}, pods: map[string]*pod{}, rested: map[watched]int{},
	}
}

// readerOf returns the identity that reads a source for a volume; nothing for the driver's own account.
func (m *model) readerOf(v *vol, r ref) (rd reader, isPods bool) {
	if r.kind == configMap && r.namespace == m.home {
		return reader{}, false
	}
	return reader{v.pod.account, r.namespace}, true
}

// accessOf returns what the model knows of the identity that reads a source for a volume; nil for the driver's own account.
func (m *model) accessOf(v *vol, r ref) *access {
	if rd, isPods := m.readerOf(v, r); isPods {
		return m.access[rd]
	}
	return nil
}

// window is which versions of an object may be seen.
type window struct {
	from, to int
	// mayLack means that the object may seem to be gone, because its reader was denied it.
	mayLack bool
}

// floors are what nothing older may be seen than: see [vol].
type floors struct {
	refs map[ref]int
	seen map[seenKey]int
}

// floorsOf returns the present floors of a volume, for a reading that begins.
func floorsOf(v *vol) floors { return floors{maps.Clone(v.floor), maps.Clone(v.seen)} }

// windows returns what may be seen of a volume's sources from floors on.
func (m *model) windows(v *vol, f floors) map[ref]window {
	all := map[ref]window{}
	for _, s := range v.sources {
		w := window{from: f.refs[s.ref], to: m.objects[s.ref].latest()}
		if a := m.accessOf(v, s.ref); a != nil {
			if last, isBlind := a.blindTo[s.ref]; isBlind {
				w.to = max(w.from, last)
			}
			w.mayLack = v.removes && (a.doubted || a.level == nothing)
		}
		all[s.ref] = w
	}
	return all
}

// versions returns the versions of a window, and the absence of the object where it may lack.
func (m *model) versions(r ref, w window) []version {
	all := m.objects[r].versions[w.from : w.to+1]
	if w.mayLack {
		all = append(slices.Clone(all), nil)
	}
	return all
}

// identify finds out what each file was made of, and that its owner and mode are right.
func (v *vol) identify(s snapshot) error {
	uid, gid := v.owner()
	for p, f := range s.files {
		from, err := originOf(f.data)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		i, found := v.indexOf(from.ref)
		if !found {
			return fmt.Errorf("%s holds %s, which is not a source of the volume", p, from)
		}
		f.from, f.source = from, i
		s.files[p] = f
		if want, got := v.modeOf(v.sources[i], p), f.stat.Mode&0o7777; got != want || f.stat.Uid != uid || f.stat.Gid != gid {
			return fmt.Errorf("%s has mode %#o and owner %d:%d, want %#o and %d:%d", p, got, f.stat.Uid, f.stat.Gid, want, uid, gid)
		}
	}
	needed := dirsOf(s.files)
	for p, st := range s.dirs {
		switch {
		case !needed[p] && !v.isPlain():
			return fmt.Errorf("directory %s is empty", p)
		case st.Mode&0o7777 != v.dirMode() || st.Uid != uid || st.Gid != gid:
			return fmt.Errorf("directory %s has mode %#o and owner %d:%d, want %#o and %d:%d",
				p, st.Mode&0o7777, st.Uid, st.Gid, v.dirMode(), uid, gid)
		}
	}
	return nil
}

// judge compares what was read of a live volume with what its sources may have. A volume that is changed as a whole must
// hold one version of each source, and files of an older version than was seen before are never right. What was seen is
// remembered: the floors are those from before the reading began.
func (m *model) judge(v *vol, s snapshot, f floors) error {
	if m.isPinned(v) {
		return m.judgePinned(v, s)
	}
	if v.policy == inPlacePolicy {
		return m.judgePresence(v, s, m.windows(v, f))
	}
	if err := v.identify(s); err != nil {
		return err
	}
	windows := m.windows(v, f)
	if v.isPlain() {
		return m.judgeFiles(v, s, windows, f.seen)
	}
	return m.judgeSet(v, s, windows)
}

// judgeSet wants the files to be those of one version of each source, none of them older than allowed.
func (m *model) judgeSet(v *vol, s snapshot, windows map[ref]window) error {
	for i, src := range v.sources {
		w := windows[src.ref]
		at := slices.IndexFunc(m.versions(src.ref, w), func(ver version) bool { return v.fits(i, ver, s.files) })
		if at < 0 {
			return fmt.Errorf("the files of %s are those of none of its versions %d to %d%s: %s",
				src.ref, w.from, w.to, orNone(w), v.shown(i, s.files))
		}
		if version := w.from + at; version <= w.to { // Beyond it is only that the object may lack.
			v.floor[src.ref] = max(v.floor[src.ref], version)
		}
	}
	return nil
}

func orNone(w window) string {
	if w.mayLack {
		return ", nor none"
	}
	return ""
}

// fits reports whether the files could be those of a volume in which one source has that version.
func (v *vol) fits(i int, ver version, files map[string]file) bool {
	src := v.sources[i]
	if v.lacks(src, ver) {
		return false
	}
	all := src.project(ver)
	for p, want := range all {
		f, found := files[p]
		if !found || f.source < i {
			return false
		}
		if f.source == i && (f.from.key != want.key || f.from.entry != want.entry) {
			return false
		}
	}
	for p, f := range files {
		if _, projected := all[p]; f.source == i && !projected {
			return false
		}
	}
	return true
}

// shown returns what is there of a source.
func (v *vol) shown(i int, files map[string]file) []string {
	texts := []string{}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if f := files[p]; f.source == i {
			texts = append(texts, fmt.Sprintf("%s is %s of version %d", p, f.from.key, f.from.entry.stamp))
		}
	}
	return texts
}

// judgeFiles wants each file to be of some version of its source, none older than was seen of this file before, and those
// to be there that were always asked for.
func (m *model) judgeFiles(v *vol, s snapshot, windows map[ref]window, seen map[seenKey]int) error {
	for p, f := range s.files {
		src := v.sources[f.source]
		w := windows[src.ref]
		key := seenKey{p, src.ref}
		from := max(w.from, seen[key])
		at := slices.IndexFunc(m.objects[src.ref].versions[min(from, w.to):w.to+1], func(ver version) bool {
			return src.project(ver)[p] == projected{f.from.key, f.from.entry}
		})
		if at < 0 {
			return fmt.Errorf("%s is %s, which is in none of the versions %d to %d", p, f.from, from, w.to)
		}
		v.seen[key] = max(v.seen[key], f.from.entry.stamp) // A version may have older values, but none is older than its values.
	}
	return m.judgePresence(v, s, windows)
}

// judgePresence wants the files to be there that every version asks for.
func (m *model) judgePresence(v *vol, s snapshot, windows map[ref]window) error {
	for _, src := range v.sources {
		all := m.versions(src.ref, windows[src.ref])
		for p := range src.project(all[0]) {
			if _, found := s.files[p]; found {
				continue
			}
			isAlways := !slices.ContainsFunc(all, func(ver version) bool { _, has := src.project(ver)[p]; return !has })
			if isAlways {
				return fmt.Errorf("%s of %s is missing", p, src.ref)
			}
		}
	}
	return nil
}

// raise remembers what the files of a volume that was judged prove: how old versions are that nothing older can follow.
func (m *model) raise(v *vol, s snapshot) {
	for i, src := range v.sources {
		w := window{from: v.floor[src.ref], to: m.objects[src.ref].latest()}
		at := slices.IndexFunc(m.versions(src.ref, w), func(ver version) bool { return v.fits(i, ver, s.files) })
		v.floor[src.ref] = w.from + max(at, 0)
	}
}

// isPinned reports whether the files must be what they were at the last rest: the volume never changes, or something that
// it requires was missing all the time.
func (m *model) isPinned(v *vol) bool {
	if v.pinned == nil || v.policy == neverPolicy {
		return v.pinned != nil
	}
	for _, src := range v.sources {
		w := window{from: v.pinnedAt[src.ref], to: m.objects[src.ref].latest()}
		if a := m.accessOf(v, src.ref); a != nil {
			w.mayLack = v.removes && (a.doubted || a.level == nothing)
		}
		if !slices.ContainsFunc(m.versions(src.ref, w), func(ver version) bool { return !v.lacks(src, ver) }) {
			return true
		}
	}
	return false
}

func (m *model) judgePinned(v *vol, s snapshot) error {
	now := s.sums()
	if maps.Equal(now, v.pinned) {
		return nil
	}
	return fmt.Errorf("the files may not have changed: they were %q and are %q",
		slices.Sorted(maps.Keys(v.pinned)), slices.Sorted(maps.Keys(now)))
}

// hopes returns what a rest brings to a volume.
type hopes int

const (
	current hopes = iota // It holds what its sources have now.
	frozen               // It stays as it is: something that it requires is missing.
	unknown              // It need not be current, since a source cannot be read.
)

// hopesOf returns what must become of a volume, live or not, when the node rests.
func (m *model) hopesOf(v *vol) (hopes, map[ref]window) {
	exact, result := map[ref]window{}, current
	for _, src := range v.sources {
		o := m.objects[src.ref]
		w := window{from: o.latest(), to: o.latest()}
		a := m.accessOf(v, src.ref)
		switch {
		case a != nil && a.level == nothing && v.removes && v.state == live:
			w.mayLack = true // It must: see below.
			exact[src.ref] = w
			continue
		case a != nil && a.level == nothing, a == nil && o.unwatched && v.state == live:
			return unknown, nil
		case v.lacks(src, o.present()), v.state != live && o.present() == nil && !src.optional:
			result = frozen
		}
		exact[src.ref] = w
	}
	return result, exact
}

// polledFor is how long the driver may poll what a reader may watch again.
const polledFor = time.Minute

// mayBeBehind reports whether the driver need not know that something is gone which the volume requires, and so goes on with the
// rest: it does not watch an immutable object, and polls what a pod may only get.
func (m *model) mayBeBehind(v *vol) bool {
	return slices.ContainsFunc(v.sources, func(src source) bool {
		o, a := m.objects[src.ref], m.accessOf(v, src.ref)
		switch {
		case !v.lacks(src, o.present()):
			return false
		case a != nil:
			return a.level == getOnly || time.Since(a.changed) < polledFor
		}
		return o.unwatched
	})
}

// judgeCurrent wants a volume to hold what its sources have now, and nothing else.
func (m *model) judgeCurrent(v *vol, s snapshot, exact map[ref]window) error {
	if err := v.identify(s); err != nil {
		return err
	}
	for i, src := range v.sources {
		w := exact[src.ref]
		now := m.objects[src.ref].present()
		if w.mayLack {
			now = nil
		}
		if !v.fits(i, now, s.files) {
			return fmt.Errorf("the files of %s are not those of its version %d (gone: %t): %s", src.ref, w.to, now == nil, v.shown(i, s.files))
		}
	}
	return v.judgeLayout(s)
}

// judgeLayout wants nothing in the volume that its files do not need.
func (v *vol) judgeLayout(s snapshot) error {
	needed := dirsOf(s.files)
	for p := range s.dirs {
		if !needed[p] {
			return fmt.Errorf("directory %s is empty", p)
		}
	}
	tops := map[string]bool{}
	for p := range s.files {
		tops[top(p)] = true
	}
	if want := slices.Sorted(maps.Keys(tops)); !slices.Equal(s.names, want) {
		return fmt.Errorf("the volume has the names %q, want %q", s.names, want)
	}
	reserved := 2 // ..data and what it leads to.
	if v.isPlain() {
		reserved = 0
	}
	if len(s.reserved) != reserved {
		return fmt.Errorf("the volume has the reserved names %q, want %d", s.reserved, reserved)
	}
	return nil
}

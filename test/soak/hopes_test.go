package soak

import (
	"fmt"
	"maps"
	"slices"
)

// hopes says what a rest brings to a volume.
type hopes int

const (
	current hopes = iota // It holds what its sources say now.
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

// judgeCurrent wants a volume to hold what its sources say now, and nothing else.
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

package volume

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/statusz"
)

// facts are what is told of a volume and decides nothing. Its volume's mu guards them.
type facts struct {
	bytes       int64     // Of the files.
	projectedAt time.Time // When the files were last changed; zero for not in this run.
	checkedAt   time.Time // When the files were last what the sources said; zero for not in this run.
	troubled    time.Time // When the problem began; zero for none.
	behind      time.Time // When the oldest change that did not get into the files became known; zero for none.
}

// projected is which version of an object is in the files, and when it was made, by the API server's clock.
type projected struct {
	version statusz.Version
	changed time.Time
}

func versionOf(c api.Content) statusz.Version {
	return statusz.Version{UID: c.UID, ResourceVersion: c.ResourceVersion}
}

// settle remembers what the files are made of, after they have been found or made to be what the tree says. v.mu is held.
func (m *Manager) settle(v *volume, t tree.Tree, contents map[api.Ref]api.Content, result Result) {
	v.crowded = time.Time{} // There is room, or none is needed.
	f := &v.facts
	f.checkedAt = time.Now()
	var reached time.Time
	next := make(map[api.Ref]projected, len(contents))
	for ref, c := range contents {
		next[ref] = projected{version: versionOf(c), changed: c.ChangedAt}
		before, known := v.projected[ref]
		// Not each change of an object moves its time. One that did is what has reached the files.
		if known && c.ChangedAt.After(before.changed) && c.ChangedAt.After(reached) {
			reached = c.ChangedAt
		}
	}
	v.projected, f.bytes = next, int64(t.Size())
	if result != ResultWritten {
		return
	}
	f.projectedAt = f.checkedAt
	if !reached.IsZero() {
		m.cfg.Reporter.Reached(reached)
	}
}

// noteDelay remembers since when a change waits, if it did not get into the files. v.mu is held.
func (v *volume) noteDelay(since time.Time, err error) {
	switch {
	case err == nil:
		v.facts.behind = time.Time{}
	case v.facts.behind.IsZero() && since.IsZero():
		v.facts.behind = time.Now()
	case v.facts.behind.IsZero():
		v.facts.behind = since
	}
}

// setProblem remembers what is wrong, and since when trouble of that kind is. v.mu is held.
func (v *volume) setProblem(problem error) {
	switch {
	case problem == nil:
		v.facts.troubled = time.Time{}
	case v.problem == nil || problemKind(v.problem) != problemKind(problem):
		v.facts.troubled = time.Now()
	}
	v.problem = problem
}

// problemKind is kindOf for trouble with a live volume, whose attributes may be what is wrong.
func problemKind(err error) Kind {
	if _, ok := errors.AsType[*api.AttributesError](err); ok {
		return Invalid
	}
	return kindOf(err)
}

// oldest returns when the oldest change that was not looked at yet became known; zero for none.
func (d *dirtyTime) oldest() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since
}

// patience is how long a report waits, in all, for volumes that are being worked on. A sync takes about a millisecond.
const (
	patience = 200 * time.Millisecond
	tryAgain = time.Millisecond
)

// tryLock locks the volume if it can be had before the deadline.
func (v *volume) tryLock(deadline time.Time) bool {
	for !v.mu.TryLock() {
		if !time.Now().Before(deadline) {
			return false
		}
		<-time.After(tryAgain)
	}
	return true
}

// each calls visit with every volume, and whether it is locked: one that is being worked on for long is not.
func (m *Manager) each(visit func(v *volume, locked bool)) {
	deadline := time.Now().Add(patience)
	for _, v := range m.all() {
		locked := v.tryLock(deadline)
		visit(v, locked)
		if locked {
			v.mu.Unlock()
		}
	}
}

func (m *Manager) all() []*volume {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*volume, 0, len(m.volumes))
	for _, v := range m.volumes {
		all = append(all, v)
	}
	return all
}

// Status returns what is known of the volumes of the pods that match, sorted. It does not wait for volumes that are being
// worked on for long.
func (m *Manager) Status(match func(api.Pod) bool) []statusz.Volume {
	all := []statusz.Volume{}
	m.each(func(v *volume, locked bool) {
		if match(v.record.Pod) && (!locked || !v.gone.Load()) {
			all = append(all, m.statusOf(v, locked))
		}
	})
	statusz.Sort(all)
	return all
}

//nolint:revive // Whether the volume is locked is what its lock cannot be asked.
func (m *Manager) statusOf(v *volume, locked bool) statusz.Volume {
	r := v.record
	s := statusz.Volume{
		ID: r.VolumeID, Pod: statusz.Pod(r.Pod), Name: v.name(), TargetPath: r.TargetPath,
		UpdatePolicy: string(v.spec.UpdatePolicy), OnDelete: string(v.spec.OnDelete), State: statusz.Busy,
	}
	var files map[api.Ref]projected
	if locked {
		f := v.facts
		s.State, s.Digest, s.Bytes, s.ProjectedAt, s.CheckedAt = v.state(), m.seal.of(v.digest), f.bytes, f.projectedAt, f.checkedAt
		s.Problem = m.problemOf(v)
		files = v.projected
	}
	s.Sources = m.sourcesOf(v, files)
	return s
}

// state returns how far the volume has come. v.mu is held.
func (v *volume) state() statusz.State {
	switch {
	case !v.live.Load():
		return statusz.Publishing
	case v.frozen:
		return statusz.Frozen
	}
	return statusz.Live
}

// problemOf returns what is wrong with a volume, or what its publish waits for; nil for nothing. v.mu is held.
func (m *Manager) problemOf(v *volume) *statusz.Problem {
	if v.problem != nil {
		return &statusz.Problem{Kind: string(problemKind(v.problem)), Message: v.problem.Error(), Since: v.facts.troubled}
	}
	if !v.live.Load() {
		if err := m.obstacle(v); err != nil {
			return &statusz.Problem{Kind: string(problemKind(err)), Message: err.Error()}
		}
		return nil
	}
	err := m.staleness(v)
	unread, ok := errors.AsType[*unreadError](err)
	if !ok {
		return nil
	}
	return &statusz.Problem{Kind: string(unread.kind()), Message: err.Error(), Since: m.cfg.Sources.Get(unread.key).Failing}
}

// sourcesOf returns the sources in the order of the attributes, with what is known of each object now.
func (m *Manager) sourcesOf(v *volume, files map[api.Ref]projected) []statusz.Source {
	keys := make(map[api.Ref]source.Key, len(v.keys))
	for _, key := range v.keys {
		keys[key.Ref] = key
	}
	all := make([]statusz.Source, 0, len(v.spec.Sources))
	for _, s := range v.spec.Sources {
		next := statusz.Source{
			Kind: string(s.Ref.Kind), Namespace: s.Ref.Namespace, Name: s.Ref.Name, Optional: s.Optional,
			ReadBy: keys[s.Ref].Identity.String(),
		}
		for _, item := range s.Items {
			next.Items = append(next.Items, statusz.Item{Key: item.Key, Path: item.Path})
		}
		if s.As != nil {
			next.As = &statusz.As{Path: s.As.Path, Format: string(s.As.Format)}
		}
		addKnown(&next, m.cfg.Sources.Get(keys[s.Ref]))
		if p, ok := files[s.Ref]; ok {
			next.Projected = &p.version
		}
		all = append(all, next)
	}
	return all
}

// addKnown adds what the API server has said of an object.
func addKnown(to *statusz.Source, s source.Snapshot) {
	to.Synced, to.Found, to.Polled, to.Revoked, to.ChangedAt = s.Synced, s.Found, s.Polled, s.Revoked, s.Changed
	if s.Found {
		known := versionOf(s.Content)
		to.Known, to.Immutable = &known, s.Content.Immutable
	}
	if s.Err != nil {
		to.Error = s.Err.Error()
	}
}

// seal is a key that nobody has but this run of the driver. The digest of a short Secret would let whoever sees it try
// guesses; sealed, it can only be compared with others of the same run.
type seal [sha256.Size]byte

func newSeal() (s seal) {
	_, _ = rand.Read(s[:]) // It never returns an error.
	return s
}

// of returns the sealed digest; none for none.
func (s seal) of(digest string) string {
	if digest == "" {
		return ""
	}
	h := hmac.New(sha256.New, s[:])
	h.Write([]byte(digest))
	const enough = 16
	return hex.EncodeToString(h.Sum(nil)[:enough])
}

package volume

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// A report waits statusTimeout, in all, for volumes that are being worked on. A sync takes about a
// millisecond.
const (
	statusTimeout = 200 * time.Millisecond
	lockInterval  = time.Millisecond
)

// facts are shown in reports and decide nothing. The projection's mu guards them.
type facts struct {
	bytes       int64     // Of the files.
	leftOut     []string  // The keys that have no file, because mount points have their places.
	collisions  []string  // The keys of selected objects that have no file because of their paths.
	projectedAt time.Time // When the files last changed; zero for not in this run.
	checkedAt   time.Time // When the files were last known to be current; zero for not in this run.
	troubled    time.Time // When the problem began; zero for none.
	behind      time.Time // When the oldest change that is not in the files became known; zero for none.
}

// noteDelay stores since when a change waits, if a sync did not write it.
func (h held) noteDelay(since time.Time, err error) {
	switch {
	case err == nil:
		h.facts.behind = time.Time{}
	case h.facts.behind.IsZero() && since.IsZero():
		h.facts.behind = time.Now()
	case h.facts.behind.IsZero():
		h.facts.behind = since
	}
}

// setProblem stores the problem, and when problems of its kind began.
func (h held) setProblem(problem error) {
	switch {
	case problem == nil:
		h.facts.troubled = time.Time{}
	case h.problem == nil || kindOf(h.problem) != kindOf(problem):
		h.facts.troubled = time.Now()
	}
	h.problem = problem
}

// visitor is called with each volume: locked if that was possible in time, else busy.
type visitor struct {
	locked func(held, *volume)
	busy   func(*volume)
}

func (m *Manager) each(visit visitor) {
	deadline := time.Now().Add(statusTimeout)
	for _, v := range m.registry.all() {
		if h, isFree := v.lockBefore(deadline); isFree {
			visit.locked(h, v)
			h.unlock()
		} else {
			visit.busy(v)
		}
	}
}

// Condition returns nil when the files of the volume are current, and else why not. For a volume
// that is not published on target it returns an *[Error] of kind Unknown; an empty target matches
// any. It does not wait long for a volume that is being worked on, and returns that as the problem.
func (m *Manager) Condition(volumeID, target string) (problem, err error) {
	v := m.registry.get(volumeID)
	switch {
	case v == nil:
		return nil, call{"describe", volumeID}.refuse(Unknown, "volume %s is not published on this node", volumeID)
	case target != "" && target != v.record.TargetPath:
		return nil, call{"describe", volumeID}.refuse(Unknown, "volume %s is not published on %s", volumeID, target)
	}
	h, isFree := v.lockBefore(time.Now().Add(statusTimeout))
	if isFree {
		defer h.unlock()
	}
	switch {
	case !v.isLive():
		return nil, call{"describe", volumeID}.refuse(Unknown, "volume %s is not published on this node", volumeID)
	case !isFree:
		return errWorkedOn, nil
	}
	_, problem = h.condition(v, h.look())
	return problem, nil
}

// Status returns the state of the volumes of the pods that match, sorted. It does not wait long for
// volumes that are being worked on.
func (m *Manager) Status(match func(api.Pod) bool) []statusz.Volume {
	all := []statusz.Volume{}
	m.each(visitor{
		locked: func(h held, v *volume) {
			if match(v.record.Pod) && !v.phase.is(gone) {
				all = append(all, h.describe(v, m.digests))
			}
		},
		busy: func(v *volume) {
			if match(v.record.Pod) {
				keys := m.registry.keysOf(v.projection())
				all = append(all, v.outline(statusz.Busy, look{keys: keys, now: m.sources.Look(keys...)}))
			}
		},
	})
	statusz.Sort(all)
	return all
}

// outline describes what never changes of a volume, and what is known of its sources.
func (v *volume) outline(state statusz.State, l look) statusz.Volume {
	r, p := v.record, v.projection()
	return statusz.Volume{
		ID: r.VolumeID, Pod: statusz.Pod(r.Pod), Name: v.name(), TargetPath: r.TargetPath, State: state,
		UpdatePolicy: string(p.spec.UpdatePolicy), OnDelete: string(p.spec.OnDelete),
		Sources: describeSources(p.spec.Inputs(), l),
	}
}

func (h held) describe(v *volume, digests digestKey) statusz.Volume {
	l := h.look()
	s := v.outline(h.stateOf(v), l)
	s.Digest, s.Bytes, s.ProjectedAt, s.CheckedAt = digests.sign(h.files.digest), h.facts.bytes, h.facts.projectedAt,
		h.facts.checkedAt
	s.Problem = h.describeProblem(v, l)
	rs := l.releases()
	for i := range s.Sources {
		of := &s.Sources[i]
		ref := api.Ref{Kind: api.Kind(of.Kind), Namespace: of.Namespace, Name: of.Name}
		of.Release = rs.status(ref)
		if projected, ok := h.files.of(ref); ok {
			of.Projected = &projected.version
		}
	}
	return s
}

// stateOf returns how far one of the volumes has come.
func (h held) stateOf(v *volume) statusz.State {
	switch {
	case !v.isLive():
		return statusz.Publishing
	case h.frozen:
		return statusz.Frozen
	}
	return statusz.Live
}

// condition returns since when, and why, the files of a live volume are not, or may not be,
// current; nil if they are.
func (h held) condition(v *volume, l look) (since time.Time, problem error) {
	if problem := h.problemOf(v); problem != nil {
		return h.facts.troubled, problem
	}
	if stale, since := l.staleness(); stale != nil && !h.frozen {
		return since, stale
	}
	return time.Time{}, nil
}

// describeProblem returns the problem of a volume, or what its publish waits for; nil for none.
func (h held) describeProblem(v *volume, l look) *statusz.Problem {
	since, problem := h.condition(v, l)
	if h.problemOf(v) == nil && !v.isLive() {
		since = time.Time{}
		_, _, problem = l.plan()
	}
	if problem == nil {
		return nil
	}
	return &statusz.Problem{Kind: string(kindOf(problem)), Message: problem.Error(), Since: since}
}

// describeSources returns the sources in the order of the attributes, with what is known of each
// object.
func describeSources(asked []api.Source, l look) []statusz.Source {
	known := make(map[api.Ref]seen, len(l.keys))
	var members []seen
	for s := range l.sources() {
		switch {
		case s.isMember: // A source may name a member too.
			members = append(members, s)
		case s.key.IsSelection():
			known[s.key.Ref.Selecting(s.key.Selector)] = s
		default:
			known[s.key.Ref] = s
		}
	}
	all := make([]statusz.Source, 0, len(asked))
	for _, a := range asked {
		refs := a.Selected()
		if a.Selection == nil {
			refs = []api.Ref{a.Ref}
		}
		for _, ref := range refs {
			all = append(all, describeSource(a, ref, known[ref]))
		}
	}
	for _, m := range members { // The evidence of releases needs them.
		if _, isSource := known[m.key.Ref]; !isSource {
			all = append(all, describeSource(api.Source{Optional: true}, m.key.Ref, m))
		}
	}
	return all
}

// describeSource describes an object or a selection of a source.
func describeSource(of api.Source, ref api.Ref, s seen) statusz.Source {
	next := statusz.Source{
		Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name, Optional: of.Optional,
		ReadBy: s.key.Identity.String(),
	}
	for _, item := range of.Items {
		next.Items = append(next.Items, statusz.Item{Key: item.Key, Path: item.Path})
	}
	if of.As != nil {
		next.As = &statusz.As{Path: of.As.Path, Format: string(of.As.Format)}
	}
	if s.key.IsSelection() {
		next.Objects = new(len(s.now.Members))
	}
	addKnown(&next, s.now)
	return next
}

// addKnown adds what the API server has answered about an object.
func addKnown(to *statusz.Source, s source.Snapshot) {
	to.Synced, to.Found, to.Polled, to.Revoked, to.ChangedAt = s.Synced, s.Found, s.Polled, s.Revoked, s.Changed
	if s.Found || s.Synced && s.Content.ResourceVersion != "" { // A selection without members has a version too.
		known := versionOf(s.Content)
		to.Known, to.Immutable = &known, s.Content.Immutable
	}
	if s.Err != nil {
		to.Error = s.Err.Error()
	}
}

// digestKey is a random key of this run of the driver. The digest of a short Secret would let a
// reader of the status guess the Secret. Keyed digests can only be compared within
// one run.
type digestKey [sha256.Size]byte

func newDigestKey() (k digestKey) {
	_, _ = rand.Read(k[:]) // It never returns an error.
	return k
}

// sign returns the keyed digest; empty for none.
func (k digestKey) sign(digest string) string {
	if digest == "" {
		return ""
	}
	h := hmac.New(sha256.New, k[:])
	h.Write([]byte(digest))
	const enough = 16
	return hex.EncodeToString(h.Sum(nil)[:enough])
}

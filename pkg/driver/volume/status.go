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
	projectedAt time.Time // When the files last changed; zero for not in this run.
	checkedAt   time.Time // When the files were last known to be current; zero for not in this run.
	troubled    time.Time // When the problem began; zero for none.
	behind      time.Time // When the oldest change that is not in the files became known; zero for none.
}

// noteDelayLocked stores since when a change waits, if a sync did not write it.
func (p *projection) noteDelayLocked(since time.Time, err error) {
	switch {
	case err == nil:
		p.facts.behind = time.Time{}
	case p.facts.behind.IsZero() && since.IsZero():
		p.facts.behind = time.Now()
	case p.facts.behind.IsZero():
		p.facts.behind = since
	}
}

// setProblemLocked stores the problem, and when problems of its kind began.
func (p *projection) setProblemLocked(problem error) {
	switch {
	case problem == nil:
		p.facts.troubled = time.Time{}
	case p.problem == nil || kindOf(p.problem) != kindOf(problem):
		p.facts.troubled = time.Now()
	}
	p.problem = problem
}

// describer reports the state of volumes. It does not wait long for volumes that are being worked
// on.
type describer struct {
	registry *registry
	sources  Sources
	stalls   *stallDetector
	key      digestKey
}

// visitor is called with each volume: locked if that was possible in time, else busy.
type visitor struct{ locked, busy func(*volume) }

func (d *describer) each(visit visitor) {
	deadline := time.Now().Add(statusTimeout)
	for _, v := range d.registry.all() {
		if p := v.lockBefore(deadline); p != nil {
			visit.locked(v)
			p.mu.Unlock()
		} else {
			visit.busy(v)
		}
	}
}

// condition returns why the files of a volume on target are not current, if so.
func (d *describer) condition(volumeID, target string) (problem, err error) {
	v := d.registry.get(volumeID)
	switch {
	case v == nil:
		return nil, call{"describe", volumeID}.refuse(Unknown, "volume %s is not published on this node", volumeID)
	case target != "" && target != v.record.TargetPath:
		return nil, call{"describe", volumeID}.refuse(Unknown, "volume %s is not published on %s", volumeID, target)
	}
	p := v.lockBefore(time.Now().Add(statusTimeout))
	if p != nil {
		defer p.mu.Unlock()
	}
	switch {
	case !v.isLive():
		return nil, call{"describe", volumeID}.refuse(Unknown, "volume %s is not published on this node", volumeID)
	case p == nil:
		return errWorkedOn, nil
	case v.problemLocked() != nil:
		return v.problemLocked(), nil
	}
	if stale, _ := p.lookLocked(d.sources).staleness(); stale != nil && !p.frozen {
		return stale, nil
	}
	return nil, nil
}

// status returns the state of the volumes of the pods that match, sorted.
func (d *describer) status(match func(api.Pod) bool) []statusz.Volume {
	all := []statusz.Volume{}
	d.each(visitor{
		locked: func(v *volume) {
			if match(v.record.Pod) && !v.phase.is(gone) {
				all = append(all, d.describeLocked(v))
			}
		},
		busy: func(v *volume) {
			if match(v.record.Pod) {
				all = append(all, d.outlineBusy(v))
			}
		},
	})
	statusz.Sort(all)
	return all
}

// outlineBusy describes what can be known of a volume without its lock.
func (d *describer) outlineBusy(v *volume) statusz.Volume {
	keys := d.registry.keysOf(v.projection())
	return v.outline(statusz.Busy, look{keys: keys, now: d.sources.Look(keys...)})
}

// outline describes what never changes of a volume, and what is known of its sources.
func (v *volume) outline(state statusz.State, l look) statusz.Volume {
	r, p := v.record, v.projection()
	return statusz.Volume{
		ID: r.VolumeID, Pod: statusz.Pod(r.Pod), Name: v.name(), TargetPath: r.TargetPath, State: state,
		UpdatePolicy: string(p.spec.UpdatePolicy), OnDelete: string(p.spec.OnDelete), Sources: describeSources(p.spec.Sources, l),
	}
}

func (d *describer) describeLocked(v *volume) statusz.Volume {
	p := v.projection()
	l := p.lookLocked(d.sources)
	s := v.outline(v.stateLocked(), l)
	s.Digest, s.Bytes, s.ProjectedAt, s.CheckedAt = d.key.sign(p.files.digest), p.facts.bytes, p.facts.projectedAt, p.facts.checkedAt
	s.Problem = v.describeProblemLocked(l)
	for i, of := range p.spec.Sources {
		s.Sources[i].Release = l.releases.status(of.Ref)
		if projected, ok := p.files.projectedLocked(of.Ref); ok {
			s.Sources[i].Projected = &projected.version
		}
	}
	return s
}

// stateLocked returns how far the volume has come.
func (v *volume) stateLocked() statusz.State {
	switch {
	case !v.isLive():
		return statusz.Publishing
	case v.projection().frozen:
		return statusz.Frozen
	}
	return statusz.Live
}

// describeProblemLocked returns the problem of a volume, or what its publish waits for; nil for
// none.
func (v *volume) describeProblemLocked(l look) *statusz.Problem {
	p := v.projection()
	if problem := v.problemLocked(); problem != nil {
		return &statusz.Problem{Kind: string(kindOf(problem)), Message: problem.Error(), Since: p.facts.troubled}
	}
	if !v.isLive() {
		if _, _, err := l.plan(); err != nil {
			return &statusz.Problem{Kind: string(kindOf(err)), Message: err.Error()}
		}
		return nil
	}
	stale, since := l.staleness()
	if stale == nil || p.frozen {
		return nil
	}
	return &statusz.Problem{Kind: string(stale.kind()), Message: stale.Error(), Since: since}
}

// describeSources returns the sources in the order of the attributes, with what is known of each
// object.
func describeSources(asked []api.Source, l look) []statusz.Source {
	known := make(map[api.Ref]seen, len(l.keys))
	for s := range l.sources() {
		known[s.key.Ref] = s
	}
	all := make([]statusz.Source, 0, len(asked))
	for _, a := range asked {
		s := known[a.Ref]
		next := statusz.Source{
			Kind: string(a.Ref.Kind), Namespace: a.Ref.Namespace, Name: a.Ref.Name, Optional: a.Optional, ReadBy: s.key.Identity.String(),
		}
		for _, item := range a.Items {
			next.Items = append(next.Items, statusz.Item{Key: item.Key, Path: item.Path})
		}
		if a.As != nil {
			next.As = &statusz.As{Path: a.As.Path, Format: string(a.As.Format)}
		}
		addKnown(&next, s.now)
		all = append(all, next)
	}
	return all
}

// addKnown adds what the API server has answered about an object.
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

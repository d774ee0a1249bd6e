package volume

import (
	"errors"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	plans "github.com/liveconfig-csi/liveconfig/pkg/files/projection"
)

// evidenceOf returns what is known about the access of a key's identity.
func evidenceOf(key source.Key, s source.Snapshot) access.Evidence {
	return access.Evidence{Identity: key.Identity, WasRead: s.Synced, Revoked: s.Revoked, Err: s.Err}
}

// followsLossLocked reports whether files go with their source. A volume that is being published
// first requires the source. p.mu is held.
func (p *projection) followsLossLocked() bool {
	return p.isLive() && p.spec.OnDelete == api.OnDeleteRemove
}

// isAbsenceEarlyLocked reports whether it is too early to count an object as deleted whose
// content is in the files, or may be after a restart. p.mu is held.
func (p *projection) isAbsenceEarlyLocked(ref api.Ref, s source.Snapshot) bool {
	_, isInFiles := p.files.projectedLocked(ref)
	return p.isLive() && (isInFiles || p.files.projected == nil) && time.Since(s.Changed) < source.AbsenceTime
}

// forgive returns the sources with those of one object made optional.
func forgive(sources []api.Source, ref api.Ref) []api.Source {
	sources = slices.Clone(sources)
	for i := range sources {
		if sources[i].Ref == ref {
			sources[i].Optional = true
		}
	}
	return sources
}

// lostLocked returns the sources that may no longer be read.
func (pl planner) lostLocked(p *projection) []*unreadError {
	var lost []*unreadError
	for _, key := range p.keys {
		if s := pl.sources.Get(key); s.Revoked {
			lost = append(lost, &unreadError{key: key, err: s.Err})
		}
	}
	return lost
}

// withLossesLocked returns the problem of a live volume after a sync that ended with err. It
// names lost sources beside other problems, unless the node is to try again. p.mu is held.
func (pl planner) withLossesLocked(p *projection, err error) error {
	lost := pl.lostLocked(p)
	sources, ofSources := errors.AsType[*sourcesError](err)
	_, ofMissing := errors.AsType[*plans.MissingError](err)
	switch {
	case err == nil && len(lost) == 0:
		return pl.noRoomLocked(p)
	case len(lost) == 0:
		return err
	case ofSources:
		return sources.with(lost)
	case err == nil, ofMissing:
		return newSourcesError(lost, err)
	}
	return err
}

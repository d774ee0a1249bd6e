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

// followsLoss reports whether files go with their source: with one that a first publish requires they cannot. p.mu is held.
func (p *projection) followsLoss() bool { return p.isLive() && p.spec.OnDelete == api.OnDeleteRemove }

// holdsAbsence reports whether it is too early to believe that an object is gone whose content is in the files, or may be
// after a restart. p.mu is held.
func (p *projection) holdsAbsence(ref api.Ref, s source.Snapshot) bool {
	_, isInFiles := p.files.projected[ref]
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

// lost returns the sources that may no longer be read.
func (pl planner) lost(p *projection) []*unreadError {
	var lost []*unreadError
	for _, key := range p.keys {
		if s := pl.sources.Get(key); s.Revoked {
			lost = append(lost, &unreadError{key: key, err: s.Err})
		}
	}
	return lost
}

// withLosses returns what is wrong with a live volume after a sync that ended with err: sources that were lost are named
// whatever else is, unless the node is to try again. p.mu is held.
func (pl planner) withLosses(p *projection, err error) error {
	lost := pl.lost(p)
	sources, ofSources := errors.AsType[*sourcesError](err)
	_, ofMissing := errors.AsType[*plans.MissingError](err)
	switch {
	case err == nil && len(lost) == 0:
		return pl.crowdedOut(p)
	case len(lost) == 0:
		return err
	case ofSources:
		return sources.with(lost)
	case err == nil, ofMissing:
		return newSourcesError(lost, err)
	}
	return err
}

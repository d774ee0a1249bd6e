package controller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// member is an object of a unit.
type member struct {
	source   stable.Object
	copy     *stable.Object // Nil for none.
	settings settings.Settings
	mistakes []settings.Mistake
	problem  string // Why the member cannot be released, besides mistakes; empty for no reason.
	// releasedAt is when the object was released, as far as it is known: its copy may be a newer
	// one.
	releasedAt time.Time
}

func (m *member) ref() api.Ref { return m.source.Ref }

func (m *member) name() string { return release.NameOf(m.source.Ref) }

// others returns the members that are not released together with one of them.
func (m *member) others(members []*member) []*member {
	e := m.copy.Exposure()
	return slices.DeleteFunc(slices.Clone(members), func(other *member) bool {
		_, isTogether := e.With[other.name()]
		return other == m || isTogether && e.Digest == m.source.Digest
	})
}

// partnersOf returns the partners of each member that has a copy.
func partnersOf(members []*member) map[string]release.Partners {
	partners := map[string]release.Partners{}
	for _, m := range members {
		if m.copy != nil {
			partners[m.name()] = m.copy.Partners()
		}
	}
	return partners
}

// knownObjects remembers objects, without their data, so that each version is read once.
type knownObjects struct {
	mu    sync.Mutex // Guards the fields below.
	known map[api.Ref]stable.Object
	since map[api.Ref]time.Time // When the data of the object became known.
	// released is when the first stable copy of a released object was created that this process has
	// seen.
	released map[api.Ref]time.Time
}

func newKnownObjects() *knownObjects {
	return &knownObjects{
		known: map[api.Ref]stable.Object{}, since: map[api.Ref]time.Time{}, released: map[api.Ref]time.Time{},
	}
}

func (k *knownObjects) get(o api.Ref) (stable.Object, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.known[o]
	return found, ok
}

func (k *knownObjects) set(o stable.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if before, isKnown := k.known[o.Ref]; !isKnown || before.Digest != o.Digest {
		k.since[o.Ref] = time.Now()
	}
	if o.AnnotationSize() > mostRemembered {
		delete(k.known, o.Ref)
		return
	}
	k.known[o.Ref] = o.WithoutData()
}

// mostRemembered is how many bytes the annotations of a stable copy may have to be remembered. One
// with more, which the controller writes only for hundreds of pods or large groups, is read each
// time.
const mostRemembered = 32 << 10

// changedAt returns when the data of an object became known, which an API server has in whole
// seconds only.
func (k *knownObjects) changedAt(o api.Ref) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.since[o]
}

func (k *knownObjects) forget(o api.Ref) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, o)
	delete(k.since, o)
}

// releasedAt returns when an object was released, whose copy was created at a time: then, or
// earlier if there was another copy before.
func (k *knownObjects) releasedAt(o api.Ref, created time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if before, isKnown := k.released[o]; !isKnown || created.Before(before) {
		k.released[o] = created
	}
	return k.released[o]
}

// unreleased notes that an object is not released any more.
func (k *knownObjects) unreleased(o api.Ref) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.released, o)
}

// read reads an object from the API server, and remembers it.
func (c *Controller) read(ctx context.Context, o api.Ref) (stable.Object, error) {
	c.requests.Spend(o.Namespace)
	read, err := stable.Read(ctx, c.cfg.Client, o)
	switch {
	case err == nil:
		c.known.set(read)
	case apierrors.IsNotFound(err):
		c.known.forget(o)
	}
	return read, err
}

// current returns an object without its data, and reads it if the caches have another version than
// is known. It is nil for an object that does not exist.
func (c *Controller) current(ctx context.Context, o api.Ref) (*stable.Object, error) {
	now, isKnown := c.known.get(o)
	cached := c.objects.get(o)
	if isKnown && cached != nil && cached.GetResourceVersion() == now.Version {
		return &now, nil
	}
	read, err := c.read(ctx, o)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // That is what is known of it.
	}
	if err != nil {
		return nil, err
	}
	read = read.WithoutData()
	return &read, nil
}

// members returns the objects of a unit that exist and are released, with their copies.
func (c *Controller) members(ctx context.Context, u unit) ([]*member, error) {
	var members []*member
	for _, ref := range c.objects.released(byUnit, u.String()) {
		source, err := c.current(ctx, ref)
		if err != nil {
			return nil, err
		}
		if source == nil || !source.IsReleased || unitOf(ref, source.Annotation) != u {
			continue
		}
		m := &member{source: *source}
		m.settings, m.mistakes = c.settings.read(source)
		if m.copy, err = c.current(ctx, release.StableOf(ref)); err != nil {
			return nil, err
		}
		if m.problem = m.misfit(); m.problem == "" && c.cfg.Obstacle != nil {
			m.problem = c.cfg.Obstacle(ref)
		}
		members = append(members, m)
	}
	slices.SortStableFunc(members, bySeniority)
	for i, m := range members {
		switch {
		case m.problem != "" || len(m.mistakes) > 0:
		case i >= release.MostMembers:
			m.problem = fmt.Sprintf("the group %s has %d objects, the most is %d", u.group, len(members), release.MostMembers)
		case len(members[0].mistakes) == 0 && !m.settings.SameSteps(members[0].settings):
			m.problem = m.settings.Disagreement(members[0].name())
		default:
			m.problem = c.missing(m, members)
		}
	}
	return members, nil
}

// bySeniority orders the members of a group: who joins a group has to follow those that have been
// released for longer.
func bySeniority(a, b *member) int {
	rank := func(m *member) int {
		switch {
		case m.isWrong():
			return 2
		case m.copy == nil:
			return 1
		}
		return 0
	}
	if rank(a) != 0 || rank(b) != 0 {
		return cmp.Compare(rank(a), rank(b))
	}
	return a.copy.CreatedAt.Compare(b.copy.CreatedAt)
}

// isWrong reports whether the member cannot be released.
func (m *member) isWrong() bool { return m.problem != "" || len(m.mistakes) > 0 }

// blockedTime is how long the others of a group wait for a member that cannot be released.
const blockedTime = time.Minute

// without returns the members of a group except those that have been wrong for some time. It keeps
// a wrong member that a release under way names: the others must not be released without it.
func (c *Controller) without(members []*member, now time.Time) []*member {
	rest := slices.DeleteFunc(slices.Clone(members), func(m *member) bool {
		if !m.isWrong() {
			c.reports.markRight(m.ref())
			return false
		}
		isTied := slices.ContainsFunc(members, func(other *member) bool { return other != m && other.isReleasedWith(m) })
		return c.reports.wrongFor(m.ref(), now) >= blockedTime && !isTied
	})
	if len(rest) == 0 {
		return members
	}
	return rest
}

// isReleasedWith reports whether the release of a member that is under way names another one.
func (m *member) isReleasedWith(other *member) bool {
	if m.copy == nil {
		return false
	}
	e := m.copy.Exposure()
	_, isNamed := e.With[other.name()]
	return isNamed && !e.State.IsFinal()
}

// missing returns why a member waits that was released together with an object whose group cannot
// be read any more: that is no reason to release the others without it. It is empty for no reason.
func (c *Controller) missing(m *member, members []*member) string {
	if m.copy == nil || m.copy.Exposure().Digest != m.source.Digest {
		return ""
	}
	for name := range m.copy.Exposure().With {
		if slices.ContainsFunc(members, func(other *member) bool { return other.name() == name }) {
			continue
		}
		for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
			ref := api.Ref{Kind: kind, Namespace: m.ref().Namespace, Name: strings.TrimPrefix(name, kind.Resource()+"/")}
			cached := c.objects.get(ref)
			if release.NameOf(ref) != name || cached == nil {
				continue
			}
			if text, isReleased := annotationOf(cached); isReleased && !settings.HasReadableGroup(text) {
				return fmt.Sprintf("the annotation of %s, which is released together with it, cannot be read", name)
			}
		}
	}
	return ""
}

// misfit returns why an object cannot be released.
func (m *member) misfit() string {
	ref := m.ref()
	switch {
	case len(ref.Name) > release.MostName:
		return fmt.Sprintf("the name has more than %d bytes, and the stable copy needs a longer one", release.MostName)
	case m.copy != nil && !m.copy.IsCopyOf(ref):
		return fmt.Sprintf("%s has the name of the stable copy, but not the label %s: %s; rename or delete it",
			m.copy.Ref, release.StableLabel, release.LabelOf(ref.Name))
	case m.source.Label != "":
		return "it is the stable copy of another object"
	}
	return ""
}

// lastSettings remembers the settings of each object, so that each text is read once. It remembers
// the last ones without a mistake too: by them its pods are watched while there is one.
type lastSettings struct {
	mu     sync.Mutex // Guards the fields below.
	last   map[api.Ref]settings.Settings
	latest map[api.Ref]readText
}

// readText is what an annotation means.
type readText struct {
	digest   [sha256.Size]byte // Of the text.
	settings settings.Settings
	mistakes []settings.Mistake
}

func newLastSettings() *lastSettings {
	return &lastSettings{last: map[api.Ref]settings.Settings{}, latest: map[api.Ref]readText{}}
}

// read returns the settings of a source, or their mistakes.
func (l *lastSettings) read(source *stable.Object) (settings.Settings, []settings.Mistake) {
	digest := sha256.Sum256([]byte(source.Annotation))
	l.mu.Lock()
	known, isKnown := l.latest[source.Ref]
	l.mu.Unlock()
	if isKnown && known.digest == digest {
		return known.settings, known.mistakes
	}
	read := readText{digest: digest}
	read.settings, read.mistakes = settings.Parse(source.Annotation)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest[source.Ref] = read
	return read.settings, read.mistakes
}

// of returns the settings of a member; while it has mistakes, those that it had before, or the
// defaults if this process has not seen any.
func (l *lastSettings) of(m *member) settings.Settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(m.mistakes) == 0 {
		l.last[m.ref()] = m.settings
		return m.settings
	}
	if last, isKnown := l.last[m.ref()]; isKnown {
		return last
	}
	return settings.Default()
}

func (l *lastSettings) forget(o api.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, o)
	delete(l.latest, o)
}

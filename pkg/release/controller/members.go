package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
}

func (m *member) ref() object { return m.source.Ref }

func (m *member) name() string { return release.NameOf(m.source.Ref) }

// knownObjects remembers objects, without their data, so that each version is read once.
type knownObjects struct {
	mu    sync.Mutex // Guards the fields below.
	known map[object]stable.Object
	since map[object]time.Time // When the data of the object became known.
}

func newKnownObjects() *knownObjects {
	return &knownObjects{known: map[object]stable.Object{}, since: map[object]time.Time{}}
}

func (k *knownObjects) get(o object) (stable.Object, bool) {
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
	k.known[o.Ref] = o.WithoutData()
}

// changedAt returns when the data of an object became known, which an API server has in whole
// seconds only.
func (k *knownObjects) changedAt(o object) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.since[o]
}

func (k *knownObjects) forget(o object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, o)
	delete(k.since, o)
}

// read reads an object from the API server, and remembers it.
func (c *Controller) read(ctx context.Context, o object) (stable.Object, error) {
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
func (c *Controller) current(ctx context.Context, o object) (*stable.Object, error) {
	now, isKnown := c.known.get(o)
	cached := c.objects.get(o)
	if isKnown && cached != nil && cached.ResourceVersion == now.Version {
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
		m.settings, m.mistakes = settings.Parse(source.Annotation)
		if m.copy, err = c.current(ctx, release.StableOf(ref)); err != nil {
			return nil, err
		}
		m.problem = m.misfit()
		members = append(members, m)
	}
	for _, m := range members {
		if len(members) > mostMembers {
			m.problem = fmt.Sprintf("the group %s has %d objects, the most is %d", u.group, len(members), mostMembers)
		}
		if len(m.mistakes) == 0 && len(members[0].mistakes) == 0 && m.problem == "" && !m.settings.SameSteps(members[0].settings) {
			m.problem = fmt.Sprintf("steps, pause, check and onFailure must be those of %s, which is in the group %s too", members[0].name(), u.group)
		}
	}
	return members, nil
}

// mostMembers is how many objects a group may have: each names all others.
const mostMembers = 100

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

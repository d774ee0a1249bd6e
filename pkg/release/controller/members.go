package controller

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// known is what the controller remembers of an object at one version: no content.
type known struct {
	uid         types.UID
	version     string
	digest      string
	annotation  string // Of an object that is released.
	isReleased  bool
	label       string // Of a stable copy.
	annotations map[string]string
	secretType  corev1.SecretType
	changedAt   time.Time
}

// member is an object of a unit.
type member struct {
	ref      object
	source   known
	copy     *known // Nil for none.
	settings settings.Settings
	mistakes []settings.Mistake
	problem  string // Why the member cannot be released, besides mistakes; empty for no reason.
}

func (m *member) name() string { return release.NameOf(m.ref) }

// exposure returns that of the copy. One that cannot be read is none.
func (m *member) exposure() release.Exposure {
	e, err := release.ParseExposure(m.copy.annotations[release.ExposureAnnotation])
	if err != nil {
		return release.Exposure{Digest: "?"} // So that it is written again.
	}
	return e
}

// knownObjects remembers objects, so that each version is read once.
type knownObjects struct {
	mu    sync.Mutex // Guards known.
	known map[object]known
}

func (k *knownObjects) get(o object) (known, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.known[o]
	return found, ok
}

func (k *knownObjects) set(o object, now known) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[o] = now
}

func (k *knownObjects) forget(o object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, o)
}

// contents are the data of an object, with what is known of it.
type contents struct {
	known

	data       map[string]string // Of a ConfigMap.
	binaryData map[string][]byte // Of a ConfigMap, or the data of a Secret.
}

// all returns the data as files have it.
func (c contents) all() map[string][]byte {
	all := maps.Clone(c.binaryData)
	if all == nil {
		all = map[string][]byte{}
	}
	for key, value := range c.data {
		all[key] = []byte(value)
	}
	return all
}

// read reads an object from the API server, and remembers it.
func (c *Controller) read(ctx context.Context, o object) (contents, error) {
	var content contents
	var meta *metav1.ObjectMeta
	if o.Kind == api.Secret {
		s, err := c.cfg.Client.CoreV1().Secrets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return contents{}, c.notRead(o, err)
		}
		content, meta = contents{binaryData: s.Data}, &s.ObjectMeta
		content.secretType = s.Type
	} else {
		m, err := c.cfg.Client.CoreV1().ConfigMaps(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return contents{}, c.notRead(o, err)
		}
		content, meta = contents{data: m.Data, binaryData: m.BinaryData}, &m.ObjectMeta
	}
	content.fill(meta)
	c.known.set(o, content.known)
	return content, nil
}

func (c *Controller) notRead(o object, err error) error {
	if apierrors.IsNotFound(err) {
		c.known.forget(o)
	}
	return fmt.Errorf("read %s: %w", o, err)
}

// fill adds what the metadata say, and the digest.
func (c *contents) fill(meta *metav1.ObjectMeta) {
	c.uid, c.version = meta.UID, meta.ResourceVersion
	c.annotation, c.isReleased = meta.Annotations[release.Annotation]
	c.label = meta.Labels[release.StableLabel]
	c.digest = release.Digest(c.all())
	c.changedAt = meta.CreationTimestamp.Time
	for _, f := range meta.ManagedFields {
		if f.Time != nil && f.Time.After(c.changedAt) {
			c.changedAt = f.Time.Time
		}
	}
	if c.label != "" {
		c.annotations = meta.Annotations
	}
}

// current returns what is known of an object, and reads it if the caches have another version. It is
// nil for an object that does not exist.
func (c *Controller) current(ctx context.Context, o object) (*known, error) {
	now, isKnown := c.known.get(o)
	cached := c.objects.get(o)
	if isKnown && cached != nil && cached.ResourceVersion == now.version {
		return &now, nil
	}
	content, err := c.read(ctx, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &content.known, nil
}

// members returns the objects of a unit that exist and are released, with their copies.
func (c *Controller) members(ctx context.Context, u unit) ([]*member, error) {
	var members []*member
	for _, ref := range c.objects.released(byUnit, u.String()) {
		source, err := c.current(ctx, ref)
		if err != nil {
			return nil, err
		}
		if source == nil || !source.isReleased || unitOf(ref, source.annotation) != u {
			continue
		}
		m := &member{ref: ref, source: *source}
		m.settings, m.mistakes = settings.Parse(source.annotation)
		if m.copy, err = c.current(ctx, release.StableOf(ref)); err != nil {
			return nil, err
		}
		m.problem = m.misfit()
		members = append(members, m)
	}
	for _, m := range members {
		if m.problem == "" && !m.settings.SameSteps(members[0].settings) {
			m.problem = fmt.Sprintf("steps, pause, check and onFailure must be those of %s, which is in the group %s too", members[0].name(), u.group)
		}
	}
	return members, nil
}

// misfit returns why an object cannot be released.
func (m *member) misfit() string {
	copied := release.StableOf(m.ref)
	switch {
	case len(m.ref.Name) > release.MostName:
		return fmt.Sprintf("the name has more than %d bytes, and the stable copy needs a longer one", release.MostName)
	case m.copy != nil && m.copy.label != release.LabelOf(m.ref.Name):
		return fmt.Sprintf("%s has the name of the stable copy, but not the label %s: %s; rename or delete it",
			copied, release.StableLabel, release.LabelOf(m.ref.Name))
	case m.source.label != "":
		return "it is the stable copy of another object"
	}
	return ""
}

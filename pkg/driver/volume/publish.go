package volume

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// Request is a request to publish a volume.
type Request struct {
	Record state.Record
	// Token returns the token for sources that the pod reads with its own credentials, which may be
	// zero. It is called only if the record is believed.
	Token func() access.Token
	// Vouch returns why the record cannot be believed; nil if it can. It is asked unless containers
	// may use the volume already: a running pod does not suffer from a new doubt.
	Vouch func(context.Context) error
	// Unnamed is why it is not known of which pod the record is; nil if it is.
	Unnamed error
}

// Publish makes the volume of the record appear on its target path, complete. A repeat for a live
// volume succeeds whatever the state of its sources, its attributes or the API server. A repeat
// with other parameters fails and changes nothing. A first publish that fails leaves nothing
// behind. Errors are of type *[Error], or those of the request.
func (m *Manager) Publish(ctx context.Context, req Request) error {
	r := req.Record
	if _, busy := m.calls.LoadOrStore(r.VolumeID, nil); busy {
		return call{"publish", r.VolumeID}.refuse(Busy, "another call for volume %s is under way", r.VolumeID)
	}
	defer m.calls.Delete(r.VolumeID)
	v := m.registry.get(r.VolumeID)
	mounted, err := m.isMounted(v, r.TargetPath)
	isElsewhere := m.registry.isTargetOfAnother(r.TargetPath, r.VolumeID) ||
		v != nil && v.record.TargetPath != r.TargetPath
	switch isLive := mounted && !isElsewhere && (v == nil || v.isLive()); {
	case !isLive:
		if err := req.vouch(ctx); err != nil {
			return err
		}
	case req.Unnamed != nil:
		klog.FromContext(ctx).Error(req.Unnamed, "The driver leaves a live volume as it is", logkeys.VolumeID, r.VolumeID)
		return nil
	}
	t := req.Token()
	if err != nil && v != nil {
		klog.FromContext(ctx).Error(err, "The driver assumes that a volume is mounted", logkeys.VolumeID, r.VolumeID)
	}
	switch {
	case v != nil && isElsewhere:
		return different(v)
	case err != nil && v == nil:
		return call{"publish", r.VolumeID}.wrap(err)
	case v == nil && mounted:
		return m.republishUnknown(ctx, r, t)
	case v == nil:
		return m.publishFirst(ctx, r, t)
	case !mounted:
		return m.publishAgain(ctx, v, r, t)
	case v.asked != r.Fingerprint():
		return different(v)
	}
	m.storeToken(ctx, v, t)
	m.repeat(ctx, v, r)
	return nil
}

// vouch returns why the request cannot be believed; nil if it can.
func (req Request) vouch(ctx context.Context) error {
	if err := req.Vouch(ctx); err != nil {
		return err
	}
	return req.Unnamed
}

// isMounted reports whether a volume, which is nil if it is not known, is on the target. If the
// node does not report it, isMounted returns an error, and takes a known volume to be where it was:
// if a repeat failed, the kubelet might remove the volume under a running pod.
func (m *Manager) isMounted(v *volume, target string) (bool, error) {
	if v != nil && m.isSeenMounted(v) {
		return true, nil
	}
	mounted, err := m.cfg.Mounts.Mounted(target)
	return mounted || v != nil && err != nil, err
}

// isSeenMounted reports, by one system call, that the volume is where it was published. If it
// returns false, ask the mount table: that grows with the volumes of the node, and the kubelet
// repeats each publish every minute.
func (m *Manager) isSeenMounted(v *volume) bool {
	h, isFree := v.lockBefore(time.Now())
	if !isFree {
		return false
	}
	defer h.unlock()
	return v.isLive() && m.cfg.Views.IsAt(v.record.TargetPath, v.mount)
}

// different refuses a request for a live volume that is not a repeat.
func different(v *volume) error {
	return call{"publish", v.record.VolumeID}.refuse(Different,
		"volume %s is already published on %s with other parameters", v.record.VolumeID, v.record.TargetPath)
}

// repeatDelay is how long after a repeat the files are compared: once for the repeats of all
// volumes of a projection, which come together after a restart of the kubelet.
const repeatDelay = time.Second

// repeat checks the record of a live volume and queues a check of its files.
func (m *Manager) repeat(ctx context.Context, v *volume, r state.Record) {
	defer m.stalls.begin(r.VolumeID)()
	logUnrecorded(ctx, r, m.cfg.Records.Ensure(r))
	if p := v.projection(); p.flags.distrust() {
		m.queue.addAt(p, time.Now().Add(repeatDelay))
	}
}

// logUnrecorded logs why a live volume has no record. Its files stay. Only a restart of the driver
// would miss the volume, until the kubelet repeats the publish.
func logUnrecorded(ctx context.Context, r state.Record, err error) {
	if err != nil {
		klog.FromContext(ctx).Error(err, "The driver cannot store the record of a live volume", logkeys.VolumeID, r.VolumeID)
	}
}

// publishAgain publishes a volume that somebody has unmounted: the next containers of the pod need
// it.
func (m *Manager) publishAgain(ctx context.Context, v *volume, r state.Record, t access.Token) error {
	if err := m.cfg.Records.Delete(r.VolumeID); err != nil {
		return call{"publish", r.VolumeID}.wrap(err)
	}
	m.forget(v)
	return m.publishFirst(ctx, r, t)
}

// republishUnknown takes over a mounted volume whose record was lost.
func (m *Manager) republishUnknown(ctx context.Context, r state.Record, t access.Token) error {
	var v *volume
	var mistake error
	err := inTurn(ctx, m.working, r, func() error {
		v, mistake = m.mountedVolume(r)
		return nil
	})
	if err != nil {
		return call{"publish", r.VolumeID}.wrap(err)
	}
	defer m.stalls.begin(r.VolumeID)()
	if mistake == nil {
		m.storeToken(ctx, v, t) // The first read needs it.
	}
	if err := m.adopt(ctx, v, mistake); err != nil {
		m.dropToken(ctx, r.VolumeID)
		return err
	}
	logUnrecorded(ctx, r, m.cfg.Records.Adopt(r))
	return nil
}

// inTurn calls do when it is the turn of the record's namespace.
func inTurn(ctx context.Context, limit *fairqueue.Semaphore, r state.Record, do func() error) error {
	done, err := limit.Take(ctx, r.Pod.Namespace)
	if err != nil {
		return err
	}
	defer done()
	return do()
}

// publishFirst publishes a new volume. It checks everything that it can before it touches anything.
// A publish that fails removes what it has created.
func (m *Manager) publishFirst(ctx context.Context, r state.Record, t access.Token) error {
	v := m.newVolume(r)
	err := attempt{
		do: func() error {
			if err := m.admit(ctx, v); err != nil {
				return err
			}
			return m.registry.add(v)
		},
		undo: func() error { v.projection().memory.account.Close(); return nil },
	}.run()
	if err != nil {
		return call{"publish", r.VolumeID}.wrap(err)
	}
	return call{"publish", r.VolumeID}.wrap(attempt{
		do: func() error {
			m.storeToken(ctx, v, t)
			return m.provision(ctx, v)
		},
		undo: func() error {
			m.forget(v)
			return m.cfg.Tokens.Drop(r.VolumeID)
		},
	}.run())
}

// attempt is a step that is undone if it fails, and also if it panics: a panic ends the call, but
// not the driver.
type attempt struct{ do, undo func() error }

func (a attempt) run() (err error) {
	succeeded := false
	defer func() {
		if !succeeded {
			err = errors.Join(err, a.undo())
		}
	}()
	err = a.do()
	succeeded = err == nil
	return err
}

// admit parses the attributes. It takes the room for them first, and then the room for what the
// publish will read from the API server.
func (m *Manager) admit(ctx context.Context, v *volume) error {
	if err := v.projection().admitUnparsed(); err != nil {
		return err
	}
	if err := inTurn(ctx, m.parsing, v.record, func() error { return m.parse(v) }); err != nil {
		return err
	}
	return v.projection().admitSources()
}

// parse checks everything in a volume's record that can be checked without reading a source.
func (m *Manager) parse(v *volume) error {
	spec, err := api.Parse(v.attributes, v.record.Pod.Namespace)
	if err != nil {
		return err
	}
	v.projection().setSpec(v.record.Pod, spec.WithFacts(v.record.Pod, m.cfg.Node), m.cfg.Authority.Choose)
	return nil
}

// storeToken stores the volume's token, if the pod reads a source with it. If the token cannot be
// written to disk, this run of the driver still uses it.
func (m *Manager) storeToken(ctx context.Context, v *volume, t access.Token) {
	p := v.projection()
	neverUpdates := v.isLive() && p.spec.UpdatePolicy == api.UpdateNever
	if neverUpdates || !slices.ContainsFunc(m.registry.keysOf(p), isReadByPod) {
		return
	}
	if err := m.cfg.Tokens.Store(v.record.VolumeID, v.record.Pod, t); err != nil {
		klog.FromContext(ctx).Error(err, "The driver cannot store a token on disk, and a restart would lose it",
			logkeys.VolumeID, v.record.VolumeID)
	}
}

// dropToken removes the token of a volume whose sources are not read any more.
func (m *Manager) dropToken(ctx context.Context, volumeID string) {
	if err := m.cfg.Tokens.Drop(volumeID); err != nil {
		klog.FromContext(ctx).Error(err, "The driver cannot remove a token that it no longer needs", logkeys.VolumeID,
			volumeID)
	}
}

// provision waits for the sources of a new volume and creates it.
func (m *Manager) provision(ctx context.Context, v *volume) error {
	h := v.lock()
	err := h.acquire(h.keys)
	h.unlock()
	for err == nil {
		if err := m.await(ctx, v); err != nil {
			return err
		}
		err := inTurn(ctx, m.working, v.record, func() error { return m.create(ctx, v) })
		// A new user of an immutable object makes the source read it again for all users. Then wait
		// once more.
		if !isFirstRead(err) {
			return err
		}
	}
	return err
}

// create records the volume and creates its files. The record comes first: after a crash in
// between, the next run drops a record without a mount.
func (m *Manager) create(ctx context.Context, v *volume) error {
	defer m.stalls.begin(v.record.VolumeID)()
	return attempt{
		do: func() error {
			r := v.record
			r.Attributes = v.attributes
			if err := m.cfg.Records.Put(r); err != nil {
				return err
			}
			return m.populate(ctx, v)
		},
		undo: func() error { return m.cfg.Records.Delete(v.record.VolumeID) }, // It may be there although Put has failed.
	}.run()
}

// populate mounts the files of a new volume: those of an equal live one, or new ones. If it fails
// it unmounts what it has mounted, and no other mount on the target.
func (m *Manager) populate(ctx context.Context, v *volume) error {
	h := v.lock()
	defer h.unlock()
	return attempt{
		do: func() error {
			if m.join(ctx, v, h) {
				klog.FromContext(ctx).V(2).Info("Published", logkeys.Pod, v.record.Pod, logkeys.Shared, v.projection().id)
				return nil
			}
			return m.populateNew(ctx, v, h)
		},
		undo: func() error {
			if !v.isLive() {
				return nil
			}
			return m.cfg.Mounts.Unmount(v.record.TargetPath)
		},
	}.run()
}

func (m *Manager) populateNew(ctx context.Context, v *volume, h held) error {
	h.flags.takeChanged() // Changes up to now are no updates of the volume.
	l, _, err := h.sync(ctx)
	if err != nil {
		return err
	}
	m.registry.setWriter(v.mount.FileSystem(), h.projection)
	klog.FromContext(ctx).V(2).Info("Published", logkeys.Pod, v.record.Pod)
	if h.spec.UpdatePolicy == api.UpdateNever {
		h.frozen = true
		h.giveBackSources()
		m.dropToken(ctx, v.record.VolumeID)
	} else {
		h.reportPolled(l.polled())
	}
	h.reportLeftOut()
	v.attributes = nil
	// Workers skip unpublished volumes: the sources may have changed since they were read, and a
	// problem that has not kept the volume from being published is not reported yet.
	if !h.flags.oldestChange().IsZero() || l.withLosses(nil) != nil {
		m.queue.add(h.projection)
	}
	return nil
}

// Package readiness reports whether the driver can publish new volumes, which is more than serving
// live ones.
//
// It does not know how records are written, how the CSIDriver object is read, or who asks for
// readiness.
package readiness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// stateInterval is how often Run checks that records can be written.
const stateInterval = 10 * time.Second

// errRecovering is why a driver that starts is not ready.
var errRecovering = errors.New("the volumes of an earlier run are still being taken over")

// Config is what a readiness needs. Every field is required.
type Config struct {
	// Recovered reports whether the volumes of an earlier run have been taken over.
	Recovered func() bool
	// CheckInstallation returns what is wrong with the CSIDriver object, as far as that is known
	// when ctx has ended.
	CheckInstallation func(ctx context.Context) error
	// CheckRegistration returns why the kubelet would not call the driver.
	CheckRegistration func() error
	// CheckLock returns an error that wraps [state.ErrTaken] if another driver has the node.
	CheckLock func() error
	// CheckState returns why no record can be written now. It may wait for a disk.
	CheckState func() error
}

// Readiness reports whether the driver can do its job. Its methods but Run do not wait.
type Readiness struct {
	cfg Config

	mu      sync.Mutex // Guards problem.
	problem error      // With the state directory, at the last check.
}

// New returns a readiness that takes the state directory to be writable until Run has checked it.
func New(cfg Config) *Readiness { return &Readiness{cfg: cfg} }

// Run checks every ten seconds that records can be written, until ctx ends. It returns an error
// when another driver has the node.
func (r *Readiness) Run(ctx context.Context) error {
	ticker := time.NewTicker(stateInterval)
	defer ticker.Stop()
	for {
		err := r.cfg.CheckLock()
		if errors.Is(err, state.ErrTaken) {
			return err
		}
		r.note(klog.FromContext(ctx), errors.Join(err, r.cfg.CheckState()))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// note stores the result of a check, and logs when it differs from the last one.
func (r *Readiness) note(logger klog.Logger, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.problem
	r.problem = err
	switch {
	case err != nil && before == nil:
		logger.Error(err, "The driver cannot write its records, and publishes no new volume")
	case err == nil && before != nil:
		logger.Info("The driver can write its records again")
	}
}

// StateWritable reports whether the last check could write a record.
func (r *Readiness) StateWritable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem == nil
}

// CheckServing returns nil if the driver can serve: it has taken over the volumes of an earlier
// run, it can record new ones, and nothing is known to be wrong with the CSIDriver object. If the
// API server has not answered yet, CheckServing still returns nil: live volumes are served without
// the API server.
func (r *Readiness) CheckServing() error {
	err := r.checkKnown()
	if known, ok := errors.AsType[*csidriver.Error](err); ok && known.Kind == csidriver.Unread {
		return nil
	}
	return err
}

// Check is [Readiness.CheckServing] for a rollout of the driver, which goes on to the next node
// when this one is ready. The driver must also have read the CSIDriver object, and the kubelet must
// have registered the driver: before that, no new volume can be published.
func (r *Readiness) Check() error {
	if err := r.checkKnown(); err != nil {
		return err
	}
	return r.cfg.CheckRegistration()
}

// checkKnown returns what is wrong with the driver itself, or with its CSIDriver object as far as
// that is known.
func (r *Readiness) checkKnown() error {
	if !r.cfg.Recovered() {
		return errRecovering
	}
	if !r.StateWritable() {
		return errors.New("the state directory cannot be written to; see the log")
	}
	ended, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // It has ended: the check must not wait.
	cancel()
	return withoutCause(r.cfg.CheckInstallation(ended))
}

// withoutCause removes the message of the API server or of the network. It can contain addresses,
// and anybody may read the answer.
func withoutCause(err error) error {
	known, ok := errors.AsType[*csidriver.Error](err)
	switch {
	case err == nil:
		return nil
	case ok:
		return &csidriver.Error{Name: known.Name, Kind: known.Kind}
	}
	return fmt.Errorf("the CSIDriver object: %w", err)
}

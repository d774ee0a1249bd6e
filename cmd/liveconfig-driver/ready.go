package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/nodeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// stateInterval is how often it is tried whether records can be written.
const stateInterval = 10 * time.Second

// errRecovering is why a driver that starts is not ready.
var errRecovering = errors.New("the volumes of an earlier run are still being taken over")

// readiness says whether the driver can do its job, which is more than to serve the volumes that are live.
type readiness struct {
	// recovered reports whether the volumes of an earlier run have been taken over.
	recovered    func() bool
	installation nodeserver.Installation
	// registered returns why the kubelet would not call the driver.
	registered func() error
	// keepLock sees that the driver still has its node to itself, as far as it can tell.
	keepLock func() error
	// tryState returns why no record can be written now. It may wait for a disk.
	tryState func() error

	mu      sync.Mutex // Guards problem.
	problem error      // With the state directory, at the last try.
}

// run tries now and then whether records can be written, until ctx ends. It returns an error when another driver has the node.
func (r *readiness) run(ctx context.Context) error {
	ticker := time.NewTicker(stateInterval)
	defer ticker.Stop()
	for {
		err := r.keepLock()
		if errors.Is(err, state.ErrTaken) {
			return err
		}
		r.note(klog.FromContext(ctx), errors.Join(err, r.tryState()))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *readiness) note(logger klog.Logger, err error) {
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

// stateWritable reports whether records could be written at the last try.
func (r *readiness) stateWritable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem == nil
}

// serves returns nil once the volumes of an earlier run have been taken over, while new ones can be recorded and as long as
// nothing is known to be wrong with the CSIDriver object. An API server that has not told yet is no reason: volumes that
// are live are served without it.
func (r *readiness) serves() error {
	err := r.capable()
	if known, ok := errors.AsType[*csidriver.Error](err); ok && known.Kind == csidriver.Unread {
		return nil
	}
	return err
}

// check is serves for whoever decides whether a new version of the driver may go on to the next node: the CSIDriver
// object also has to have been read once, and the kubelet to have registered the driver, since no new volume can be
// published before.
func (r *readiness) check() error {
	if err := r.capable(); err != nil {
		return err
	}
	return r.registered()
}

// capable says what is wrong with the driver itself, or with its CSIDriver object as far as that is known.
func (r *readiness) capable() error {
	if !r.recovered() {
		return errRecovering
	}
	if !r.stateWritable() {
		return errors.New("the state directory cannot be written to; see the log")
	}
	asked, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // It is asked for what is known, and must not wait.
	cancel()
	return withoutCause(r.installation.Check(asked))
}

// withoutCause leaves out what the API server or the network has said: it can hold addresses, and anybody may read this.
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

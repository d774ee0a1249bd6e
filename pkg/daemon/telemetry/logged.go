package telemetry

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

// LoggedEvents writes Events to the log, for a driver without an API server.
type LoggedEvents struct{ logger klog.Logger }

// NewLoggedEvents returns a writer of Events to the logger.
func NewLoggedEvents(logger klog.Logger) LoggedEvents { return LoggedEvents{logger: logger} }

// Write logs an Event.
func (l LoggedEvents) Write(e Event) {
	l.logger.Info("Event", logkeys.Pod, e.Pod.String(), logkeys.Reason, e.Reason, logkeys.Warning, e.Warning, logkeys.Note,
		cut(e.Note))
}

// Start does nothing: an Event is logged when it is written.
func (LoggedEvents) Start(context.Context) {}

// Run returns when ctx ends.
func (LoggedEvents) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

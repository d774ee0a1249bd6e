package server

import (
	"slices"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

// callLogger names the method and, where the request has one, the volume.
func callLogger(logger klog.Logger, method string, req any) klog.Logger {
	if logger.IsZero() {
		return logger // It has no sink and writes nothing.
	}
	sink := &callSink{LogSink: logger.GetSink(), method: method}
	if r, ok := req.(interface{ GetVolumeId() string }); ok {
		sink.hasVolume, sink.volumeID = true, r.GetVolumeId()
	}
	return logger.WithSink(sink)
}

// callSink adds to a line which call it is about. It adds the values when a line is written. Most
// calls write none, and WithValues formats the values for each call: that takes 680 ns and 528
// bytes instead of 37 ns and 64 bytes (BenchmarkCallLogger).
type callSink struct {
	klog.LogSink

	method    string
	hasVolume bool
	volumeID  string
}

// values are keys and values.
func (s *callSink) values() []any {
	if !s.hasVolume {
		return []any{logkeys.Method, s.method}
	}
	return []any{logkeys.Method, s.method, logkeys.VolumeID, s.volumeID}
}

// Info is [klog.LogSink].
func (s *callSink) Info(level int, message string, values ...any) {
	s.LogSink.Info(level, message, slices.Concat(s.values(), values)...)
}

// Error is [klog.LogSink].
func (s *callSink) Error(err error, message string, values ...any) {
	s.LogSink.Error(err, message, slices.Concat(s.values(), values)...)
}

// WithValues is [klog.LogSink].
func (s *callSink) WithValues(values ...any) klog.LogSink {
	return s.LogSink.WithValues(slices.Concat(s.values(), values)...)
}

// WithName is [klog.LogSink].
func (s *callSink) WithName(name string) klog.LogSink {
	return s.LogSink.WithValues(s.values()...).WithName(name)
}

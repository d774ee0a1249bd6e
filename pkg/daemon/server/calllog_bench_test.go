package server

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

// BenchmarkCallLogger compares the logger of a call that writes no line with one that has its values beforehand.
func BenchmarkCallLogger(b *testing.B) {
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	b.Cleanup(klog.ClearLogger)
	logger := klog.Background()
	req := &csi.NodePublishVolumeRequest{VolumeId: "csi-" + strings.Repeat("0123456789abcdef", 4)}
	b.Run("when a line is written", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			callLogger(logger, "/csi.v1.Node/NodePublishVolume", req)
		}
	})
	b.Run("beforehand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			logger.WithValues(logkeys.Method, "/csi.v1.Node/NodePublishVolume", logkeys.VolumeID, req.GetVolumeId())
		}
	})
}

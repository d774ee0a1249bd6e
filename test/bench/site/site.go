// Package site is the node that the benchmark measures: a real one, with the driver in a container, and the pods on it.
//
// It does not know what is measured.
package site

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	kit "github.com/liveconfig-csi/liveconfig/test/kit/install"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// Site is a node with the driver installed, and the pods on it.
type Site struct {
	*kit.Installation

	crowd []*corev1.Pod
	edits int // By [Site.Edit], which one part at a time calls.
}

// Start returns when pods can use volumes. The caller must call [Site.Stop].
func Start(ctx context.Context, cfg kit.Config) (*Site, error) {
	cfg.Runtime = realnode.Containerd2()
	s, err := kit.Start(ctx, cfg)
	return &Site{Installation: s}, err
}

// Fast returns an administrator's client that speaks as the driver does, by the shortest encoding, so that the benchmark
// takes as little time as it can.
func (s *Site) Fast() (kubernetes.Interface, error) { return kubernetes.NewForConfig(s.FastConfig()) }

// FastConfig is the configuration of [Site.Fast].
func (s *Site) FastConfig() *rest.Config {
	config := s.AdminConfig()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// Rest waits for some time, or until the context ends.
func Rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

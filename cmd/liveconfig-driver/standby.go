package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// holderInterval is how often a driver that waits looks whether it still waits for the same one.
const holderInterval = 10 * time.Second

// newLock returns the lock by which one driver at a time has the records, the sockets and the
// volumes of a node.
func newLock(cfg config) (*state.Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find out the name of this host: %w", err)
	}
	return state.NewLock(cfg.stateDir, state.Holder{
		Name: host, Namespace: cfg.podNamespace, PID: os.Getpid(), Node: cfg.nodeID, Version: version.Version(),
	}), nil
}

// standby is a driver that waits while another driver has the node: the process of a pod that was
// deleted by force, or a second installation. While it waits, it touches nothing of the node.
type standby struct {
	cfg     config
	lock    *state.Lock
	started time.Time
}

// awaitNode returns when no other driver has the state directory any more. A driver that waits is
// alive and not ready, and reports which driver it waits for. If ctx ends first, that is not an
// error.
func awaitNode(ctx context.Context, cfg config, lock *state.Lock) error {
	isTaken, err := lock.TryTake()
	if isTaken || err != nil {
		return err
	}
	s := &standby{cfg: cfg, lock: lock, started: time.Now()}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.serve(ctx) })
	g.Go(func() error { return s.logHolder(ctx) })
	g.Go(func() error {
		defer stop()
		return lock.Take(ctx)
	})
	switch err := g.Wait(); {
	case errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return err
	}
	klog.Background().Info("The other driver has ended; taking over the node", logkeys.Directory, cfg.stateDir)
	return nil
}

// logHolder logs which driver this one waits for, and each change of that, until ctx ends.
func (s *standby) logHolder(ctx context.Context) error {
	ticker := time.NewTicker(holderInterval)
	defer ticker.Stop()
	for logged := ""; ; {
		if holder := s.lock.Holder().String(); holder != logged {
			klog.Background().Info("Waiting for the end of another driver, which has the state directory of the node; "+
				"nothing of the node is touched until then", logkeys.Directory, s.cfg.stateDir, logkeys.Holder, holder)
			logged = holder
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// serve serves HTTP until ctx ends. Where both drivers use the network of the host, the other one
// has the port, and nothing is served until it ends.
func (s *standby) serve(ctx context.Context) error {
	if s.cfg.httpEndpoint == "" {
		return nil
	}
	l, err := server.ListenHTTP(ctx, s.cfg.httpEndpoint)
	if err != nil {
		klog.Background().Info("The driver serves HTTP when the other driver has ended", logkeys.Reason, err.Error())
		return nil
	}
	return server.ServeHTTP(ctx, l, s.mux())
}

func (s *standby) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/healthz", server.Health(func() error { return nil }))
	mux.Handle("/readyz", server.Health(s.check))
	mux.Handle("/metrics", server.Health(s.check))
	mux.Handle("GET /statusz", server.Local(http.HandlerFunc(s.serveStatus)))
	return mux
}

// check returns why the driver is not ready.
func (s *standby) check() error {
	return fmt.Errorf("another driver has %s, and this one waits for its end: %s", s.cfg.stateDir, s.lock.Holder())
}

func (s *standby) serveStatus(w http.ResponseWriter, r *http.Request) {
	report := newReport(s.cfg, s.started)
	holder := statusz.Holder(s.lock.Holder())
	report.WaitsFor = &holder
	writeReport(w, r, report)
}

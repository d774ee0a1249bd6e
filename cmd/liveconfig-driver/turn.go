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

// turn is a driver's wait for its turn, while another one has the node: the process of a pod that
// was deleted by force, or a second installation. Until it comes, the driver touches nothing of the
// node.
type turn struct {
	cfg     config
	lock    *state.Lock
	started time.Time
}

// awaitTurn returns when no other driver has the state directory any more. A driver that waits is
// alive and not ready, and reports which driver it waits for. If ctx ends first, that is not an
// error.
func awaitTurn(ctx context.Context, cfg config, lock *state.Lock) error {
	isTaken, err := lock.TryTake()
	if isTaken || err != nil {
		return err
	}
	t := &turn{cfg: cfg, lock: lock, started: time.Now()}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.serve(ctx) })
	g.Go(func() error { return t.logHolder(ctx) })
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
func (t *turn) logHolder(ctx context.Context) error {
	ticker := time.NewTicker(holderInterval)
	defer ticker.Stop()
	for told := ""; ; {
		if holder := t.lock.Holder().String(); holder != told {
			klog.Background().Info("Waiting for the end of another driver, which has the state directory of the node; "+
				"nothing of the node is touched until then", logkeys.Directory, t.cfg.stateDir, logkeys.Holder, holder)
			told = holder
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
func (t *turn) serve(ctx context.Context) error {
	if t.cfg.httpEndpoint == "" {
		return nil
	}
	l, err := server.ListenHTTP(ctx, t.cfg.httpEndpoint)
	if err != nil {
		klog.Background().Info("The driver serves HTTP when the other driver has ended", logkeys.Reason, err.Error())
		return nil
	}
	return server.ServeHTTP(ctx, l, t.mux())
}

func (t *turn) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/healthz", server.Health(func() error { return nil }))
	mux.Handle("/readyz", server.Health(t.check))
	mux.Handle("/metrics", server.Health(t.check))
	mux.Handle("GET /statusz", server.Local(http.HandlerFunc(t.serveStatus)))
	return mux
}

// check returns why the driver is not ready.
func (t *turn) check() error {
	return fmt.Errorf("another driver has %s, and this one waits for its end: %s", t.cfg.stateDir, t.lock.Holder())
}

func (t *turn) serveStatus(w http.ResponseWriter, r *http.Request) {
	report := newReport(t.cfg, t.started)
	holder := statusz.Holder(t.lock.Holder())
	report.WaitsFor = &holder
	writeReport(w, r, report)
}

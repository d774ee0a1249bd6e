package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/lockdown"
	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/server"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
	"github.com/liveconfig-csi/liveconfig/pkg/telemetry"
	"github.com/liveconfig-csi/liveconfig/pkg/version"
	"github.com/liveconfig-csi/liveconfig/pkg/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/volumefs"
)

// run is the whole program: it serves until ctx ends or something it needs breaks.
func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) error {
	cfg, err := parseFlags(args, getenv, stderr)
	if err != nil {
		return err
	}
	if err := telemetry.SetUpLogging(stderr, cfg.logFormat, cfg.verbosity); err != nil {
		return err
	}
	logger := klog.Background()
	logger.Info("Starting", logkeys.Driver, cfg.driverName, logkeys.Version, version.Version(), logkeys.NodeID, cfg.nodeID)
	if err := lockdown.Apply(logger); err != nil {
		return fmt.Errorf("lock the process down: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p, err := newParts(ctx, cfg)
	if err != nil {
		return err
	}
	err = p.serve(ctx, cfg)
	stop()
	p.sources.Wait()
	if err != nil {
		return err
	}
	logger.Info("Stopped; the volumes stay mounted")
	return nil
}

// parts are what the driver is put together from.
type parts struct {
	mounts  *volumefs.FS
	sources *source.Cache
	volumes *volume.Manager
	metrics *telemetry.Metrics
	events  *telemetry.Events
}

func newParts(ctx context.Context, cfg config) (*parts, error) {
	selinux, err := selinuxContext(cfg.selinuxContext)
	if err != nil {
		return nil, err
	}
	mounts := volumefs.New(volumefs.Config{Source: cfg.driverName, SELinuxContext: selinux})
	if err := mounts.Check(); err != nil {
		return nil, err
	}
	apiServer, client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	vault, err := newVault(cfg)
	if err != nil {
		return nil, err
	}
	authority, err := identity.New(identity.Config{
		Driver: client, Server: apiServer, Vault: vault,
		ConfigMaps: identity.Reader(cfg.configMapIdentity), Secrets: identity.Reader(cfg.secretIdentity),
	})
	if err != nil {
		return nil, err
	}
	records, err := state.New(cfg.stateDir)
	if err != nil {
		return nil, err
	}
	events, err := telemetry.NewEvents(ctx, client, cfg.driverName, cfg.nodeID)
	if err != nil {
		return nil, err
	}
	p := &parts{mounts: mounts, events: events}
	p.sources = source.New(ctx, source.Config{
		Client:  authority.Client,
		Changed: func(key source.Key) { p.volumes.Changed(key) },
		Recheck: cfg.recheckInterval,
	})
	p.metrics = telemetry.NewMetrics(cfg.driverName, telemetry.Gauges{
		Volumes: func() int { return p.volumes.Volumes() },
		Watches: p.sources.Watches,
	})
	p.volumes = volume.New(volume.Config{
		Sources: p.sources, Authority: authority, Tokens: vault, Records: records, Mounts: mounts, Reporter: reporter{p},
		PublishTimeout: cfg.publishTimeout, ResyncInterval: cfg.resyncInterval,
	})
	return p, nil
}

// selinuxContext returns the context for the volumes of this node: none where the kernel runs without SELinux and would
// refuse one. The list of file systems says so in every container; the mount of selinuxfs is not in all.
func selinuxContext(wanted string) (string, error) {
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return "", fmt.Errorf("find out whether the node has SELinux: %w", err)
	}
	if !strings.Contains(string(filesystems), "\tselinuxfs\n") {
		return "", nil
	}
	return wanted, nil
}

// newVault returns the tokens that an earlier run of the driver held.
func newVault(cfg config) (*identity.Vault, error) {
	files, err := state.NewFiles(filepath.Join(cfg.stateDir, "tokens"))
	if err != nil {
		return nil, err
	}
	vault := identity.NewVault(files)
	if err := vault.Load(); err != nil {
		klog.Background().Error(err, "Some tokens are missing until the kubelet brings them again")
	}
	return vault, nil
}

// newClient returns how to reach the API server, and a client with the driver's own credentials. The API server's own priority and fairness paces it: the
// client's limit would make volumes of a starting node wait in line for nothing.
func newClient(cfg config) (*rest.Config, corev1client.CoreV1Interface, error) {
	cluster, err := clientcmd.BuildConfigFromFlags("", cfg.kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("read how to reach the API server (see --kubeconfig): %w", err)
	}
	cluster.QPS = -1
	cluster.ContentType = "application/vnd.kubernetes.protobuf"
	cluster.UserAgent = "liveconfig-driver/" + version.Version()
	client, err := corev1client.NewForConfig(cluster)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return cluster, client, nil
}

// serve takes over the volumes of an earlier run and serves until ctx ends. The first part that stops stops all.
func (p *parts) serve(ctx context.Context, cfg config) error {
	logger := klog.Background()
	if err := p.volumes.Recover(ctx); err != nil {
		logger.Error(err, "Some records could not be read; their volumes stay as they are")
	}
	logger.Info("Took over the volumes of an earlier run", logkeys.Volumes, p.volumes.Volumes())

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.volumes.Run(ctx) })
	g.Go(func() error { return p.events.Run(ctx) })
	g.Go(func() error { return p.serveCSI(ctx, cfg) })
	if cfg.httpEndpoint != "" {
		g.Go(func() error { return server.ServeHTTP(ctx, cfg.httpEndpoint, p.mux()) })
	}
	return g.Wait()
}

// serveCSI serves the CSI socket and, once it listens, the registration that points the kubelet to it.
func (p *parts) serveCSI(ctx context.Context, cfg config) error {
	path, err := server.ParseEndpoint(cfg.endpoint)
	if err != nil {
		return err
	}
	l, err := server.Listen(ctx, path)
	if err != nil {
		return err
	}
	calls := grpc.UnaryInterceptor(server.Interceptor(klog.Background(), p.metrics.RecordCall))
	s := grpc.NewServer(calls)
	d := driver.New(driver.Config{
		Name: cfg.driverName, Version: version.Version(), NodeID: cfg.nodeID, KubeletDir: cfg.kubeletDir,
		Volumes: p.volumes, Usage: p.mounts.Usage,
	})
	csi.RegisterIdentityServer(s, d)
	csi.RegisterNodeServer(s, d)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Serve(ctx, l, s) })
	if cfg.registrationDir != "" {
		registration := server.NewRegistration(cfg.driverName, path)
		g.Go(func() error { return registration.Serve(ctx, cfg.registrationDir, calls) })
	}
	klog.Background().Info("Serving", logkeys.Address, path)
	return g.Wait()
}

func (p *parts) mux() *http.ServeMux {
	mux := http.NewServeMux()
	p.metrics.Register(mux, "/metrics")
	mux.Handle("/healthz", server.Health(func() error { return nil }))
	mux.Handle("/readyz", server.Health(func() error {
		if !p.volumes.Ready() {
			return fmt.Errorf("the volumes of an earlier run are still being taken over")
		}
		return nil
	}))
	return mux
}

// reporter shows what happens to volumes in metrics and Events.
type reporter struct{ *parts }

var _ volume.Reporter = reporter{}

// Event writes an Event on the pod.
func (r reporter) Event(pod api.Pod, name string, reason volume.Reason, note string) {
	r.events.Write(telemetry.Event{Pod: pod, Volume: name, Warning: reason.Warns(), Reason: string(reason), Note: note})
}

// Synced counts a sync.
func (r reporter) Synced(result volume.Result, since time.Time) {
	took := time.Duration(0)
	if result == volume.ResultWritten && !since.IsZero() {
		took = time.Since(since)
	}
	r.metrics.Synced(string(result), took)
}

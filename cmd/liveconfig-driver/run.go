package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/lockdown"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/nodeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/readiness"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
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
	lock, err := newLock(cfg)
	if err != nil {
		return err
	}
	if err := awaitNode(ctx, cfg, lock); err != nil || ctx.Err() != nil {
		return err
	}
	// From here on the node is this driver's, until the process has ended: the lock is not given
	// back.
	p, err := newParts(ctx, cfg, lock)
	if err != nil {
		return err
	}
	if err := p.serve(ctx, cfg); err != nil {
		return err
	}
	logger.Info("Stopped; the volumes stay mounted")
	return nil
}

// parts are what the driver is put together from.
type parts struct {
	memory  *budget.Memory
	mounts  *volumefs.FS
	origin  *origin
	volumes *volume.Manager
	metrics *telemetry.Metrics
	// registration is nil when a sidecar registers the driver.
	registration *server.Registration
	ready        *readiness.Readiness
}

func newParts(ctx context.Context, cfg config, lock *state.Lock) (*parts, error) {
	given, err := budget.ParseSize(cfg.volumeMemory)
	if err != nil {
		return nil, err
	}
	memory, err := budget.NewMemory(given, klog.Background())
	if err != nil {
		return nil, err
	}
	selinux, err := selinuxContext(cfg.selinuxContext)
	if err != nil {
		return nil, err
	}
	mounts := volumefs.New(volumefs.Config{
		Root: cfg.kubeletDir, Dir: nodeserver.PodsDir, Source: cfg.driverName, SELinuxContext: selinux,
	})
	if err := mounts.Check(); err != nil {
		return nil, err
	}
	if err := mounts.RefusedContext(); err != nil {
		klog.FromContext(ctx).Error(err, "The node refuses the context of --selinux-context; the kernel chooses the "+
			"labels of files, and the node's policy decides whether containers may read them")
	}
	records, err := state.New(cfg.stateDir)
	if err != nil {
		return nil, err
	}
	p := &parts{mounts: mounts, memory: memory}
	p.origin, err = newOrigin(cfg, memory, func(key source.Key) { p.volumes.Changed(key) })
	if err != nil {
		return nil, err
	}
	ready := readiness.Config{
		Recovered: func() bool { return p.volumes.Ready() }, CheckInstallation: p.origin.installation.Check,
		CheckRegistration: func() error { return nil }, CheckLock: lock.Check, CheckState: records.Check,
	}
	if cfg.registrationDir != "" {
		path, err := server.ParseEndpoint(cfg.endpoint)
		if err != nil {
			return nil, err
		}
		p.registration = server.NewRegistration(cfg.driverName, path)
		ready.CheckRegistration = p.registration.Check
	}
	p.ready = readiness.New(ready)
	p.metrics = p.newMetrics(cfg)
	p.volumes = volume.New(volume.Config{
		Sources: p.origin.sources, Authority: p.origin.authority, Tokens: p.origin.tokens,
		Records: records, EarlierRecords: records, Mounts: mounts, Views: volume.OnTmpfs(mounts),
		Reporter: reporter{p}, Room: memory.Files, PublishTimeout: cfg.publishTimeout, ResyncInterval: cfg.resyncInterval,
		ShareVolumes: cfg.shareVolumes, Node: cfg.nodeID,
	})
	return p, nil
}

// selinuxContext returns the context for the volumes of this node: none where the kernel runs
// without SELinux and would refuse one. Every container has the list of file systems; some have no
// mount of selinuxfs.
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
func newVault(cfg config) (*access.Vault, error) {
	files, err := state.NewFiles(filepath.Join(cfg.stateDir, "tokens"))
	if err != nil {
		return nil, err
	}
	vault := access.NewVault(files)
	if err := vault.Load(); err != nil {
		klog.Background().Error(err, "Some tokens are missing until the kubelet sends them again")
	}
	return vault, nil
}

// clients have the driver's own credentials.
type clients struct {
	types                  *kubeclient.Types
	core, reviews, storage rest.Interface
}

// newClients returns how to reach the API server, and clients that do. The API server's own
// priority and fairness paces them: a client's limit would make volumes of a starting node wait in
// line for nothing.
func newClients(cfg config, gate *flowcontrol.Gate) (*rest.Config, clients, error) {
	cluster, err := clientcmd.BuildConfigFromFlags("", cfg.kubeconfig)
	if err != nil {
		return nil, clients{}, fmt.Errorf("read how to reach the API server (see --kubeconfig): %w", err)
	}
	cluster.QPS = -1
	cluster.ContentType = "application/vnd.kubernetes.protobuf"
	cluster.UserAgent = "liveconfig-driver/" + version.Version()
	cluster.Wrap(gate.Transport)
	transport, err := rest.HTTPClientFor(cluster)
	if err != nil {
		return nil, clients{}, fmt.Errorf("make a connection to the API server: %w", err)
	}
	types, err := kubeclient.New()
	if err != nil {
		return nil, clients{}, err
	}
	c := clients{types: types}
	var errs [3]error
	c.core, errs[0] = types.Client(cluster, transport, corev1.SchemeGroupVersion)
	c.reviews, errs[1] = types.Client(cluster, transport, authorizationv1.SchemeGroupVersion)
	c.storage, errs[2] = types.Client(cluster, transport, storagev1.SchemeGroupVersion)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, clients{}, err
	}
	return cluster, c, nil
}

// serve takes over the volumes of an earlier run and serves until ctx ends, or until a part of it
// fails, which ends the others.
func (p *parts) serve(ctx context.Context, cfg config) error {
	logger := klog.Background()
	g, ctx := errgroup.WithContext(ctx)
	if cfg.httpEndpoint != "" { // It reports from the start how far the driver is.
		l, err := server.ListenHTTP(ctx, cfg.httpEndpoint)
		if err != nil {
			return err
		}
		g.Go(func() error { return server.ServeHTTP(ctx, l, p.mux(cfg)) })
	}
	p.origin.events.Start(ctx) // Recovering writes Events.
	if err := p.volumes.Recover(ctx); err != nil {
		logger.Error(err, "The driver cannot read some records; their volumes stay as they are")
	}
	logger.Info("Took over the volumes of an earlier run", logkeys.Volumes, p.volumes.Volumes())

	p.origin.start(ctx, g)
	g.Go(func() error { return p.ready.Run(ctx) })
	g.Go(func() error { return p.volumes.Run(ctx) })
	g.Go(func() error { return p.serveCSI(ctx, cfg) })
	return g.Wait()
}

// serveCSI serves the CSI socket and, once it listens, the registration that points the kubelet to
// it.
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
	s := server.NewGRPC(calls)
	d := nodeserver.New(nodeserver.Config{
		Name: cfg.driverName, Version: version.Version(), NodeID: cfg.nodeID, KubeletDir: cfg.kubeletDir,
		Installation: countedInstallation{p.origin.installation, p.metrics}, Volumes: counted{p.volumes, p.metrics},
		Usage: p.mounts.Usage,
		Ready: p.ready.CheckServing,
	})
	csi.RegisterIdentityServer(s, d)
	csi.RegisterNodeServer(s, d)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Serve(ctx, l, s) })
	if p.registration != nil {
		g.Go(func() error { return p.registration.Serve(ctx, cfg.registrationDir, calls) })
	}
	klog.Background().Info("Serving", logkeys.Address, path)
	return g.Wait()
}

func (p *parts) mux(cfg config) *http.ServeMux {
	mux := http.NewServeMux()
	p.metrics.Register(mux, "/metrics")
	mux.Handle("/healthz", server.Health(p.volumes.Healthy))
	mux.Handle("/readyz", server.Health(p.ready.Check))
	mux.Handle("GET /statusz", server.Local(p.serveStatus(cfg)))
	return mux
}

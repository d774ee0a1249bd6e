package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// The names of the logs in [Config.LogDir].
const (
	etcdLog      = "etcd.log"
	apiServerLog = "kube-apiserver.log"
	auditLog     = "audit.log"
)

const (
	// etcdClientSocket and etcdPeerSocket lie in the cluster's directory, which nobody else can enter: etcd asks for
	// no password. etcd makes the file name out of what it takes for a host and a port.
	etcdClientSocket = "client.sock:0"
	etcdPeerSocket   = "peer.sock:0"
	// readyTimeout is several times what a start takes on a busy machine with two cores.
	readyTimeout = 2 * time.Minute
	// stopGrace is how long the API server may take to drain its requests.
	stopGrace = 20 * time.Second
)

// ServiceIP is the address by which pods know the API server, if somebody forwards from there.
const ServiceIP = "10.96.0.1"

// serviceAccountIssuer is in tokens, as issuer and as audience.
const serviceAccountIssuer = "https://kubernetes.default.svc"

// auditPolicy records user, verb and object of each request at every stage, and never a body.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
`

// writeServerFiles makes the keys, certificates and the audit policy, and the admin's way in.
func (c *Cluster) writeServerFiles(now time.Time) error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	c.ca = ca
	server, err := ca.server(now)
	if err != nil {
		return err
	}
	tokenKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	admin, err := ca.client(now, "admin", "system:masters")
	if err != nil {
		return err
	}
	kubelets, err := ca.client(now, "kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	c.admin = c.restConfig()
	c.admin.CertData, c.admin.KeyData = admin.cert, admin.key
	for name, data := range map[string][]byte{
		"ca.crt":       ca.pem,
		"server.crt":   server.cert,
		"server.key":   server.key,
		"kubelet.crt":  kubelets.cert,
		"kubelet.key":  kubelets.key,
		"token.key":    tokenKey,
		"token.keys":   tokenKey,
		"audit-policy": []byte(auditPolicy),
	} {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return fmt.Errorf("write the cluster's files: %w", err)
		}
	}
	return nil
}

// restConfig has the server's address and no credentials. It has no client-side rate limit: a test that is slow should be
// slow for another reason.
func (c *Cluster) restConfig() *rest.Config {
	return &rest.Config{
		Host:            "https://" + c.port.Address(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem},
		QPS:             -1,
	}
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	begin := time.Now()
	etcd, err := process.Start(context.WithoutCancel(ctx), process.Config{
		Path: filepath.Join(c.cfg.BinDir, "etcd"),
		// The sockets' names are relative to the directory.
		Dir:     c.dir.Path(),
		LogFile: c.logPath(etcdLog),
		Args: []string{
			"--name=test",
			"--data-dir=" + etcdData,
			"--listen-client-urls=unix://" + etcdClientSocket,
			"--advertise-client-urls=unix://" + etcdClientSocket,
			"--listen-peer-urls=unix://" + etcdPeerSocket,
			"--initial-advertise-peer-urls=unix://" + etcdPeerSocket,
			"--initial-cluster=test=unix://" + etcdPeerSocket,
			"--unsafe-no-fsync", // The data does not outlive the process.
			"--log-level=warn",
		},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.etcd = etcd
	c.mu.Unlock()
	if err := etcd.Await(ctx, readyTimeout, c.etcdReady); err != nil {
		return fmt.Errorf("wait for etcd: %w", err)
	}
	c.say("etcd is ready after %s", time.Since(begin).Round(time.Millisecond))
	return nil
}

func (c *Cluster) etcdReady(ctx context.Context) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.path(etcdClientSocket))
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://etcd/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET /readyz: %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// StartAPIServer starts the API server that [Cluster.StopAPIServer] stopped, on the same port, and waits until it is
// ready. It does nothing when the server is running.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer != nil {
		return nil
	}
	begin := time.Now()
	server, err := process.Start(context.WithoutCancel(ctx), process.Config{
		Path:    filepath.Join(c.cfg.BinDir, "kube-apiserver"),
		Dir:     c.dir.Path(),
		LogFile: c.logPath(apiServerLog),
		Args:    append(c.apiServerArgs(), c.cfg.APIServerArgs...),
	})
	if err != nil {
		return err
	}
	c.apiServer = server
	if err := server.Await(ctx, readyTimeout, c.apiServerReady); err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	c.say("kube-apiserver is ready at %s after %s", c.admin.Host, time.Since(begin).Round(time.Millisecond))
	return nil
}

func (c *Cluster) apiServerArgs() []string {
	return []string{
		"--etcd-servers=unix://" + c.path(etcdClientSocket),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.port.Number()),
		"--permit-port-sharing",
		"--cert-dir=" + c.path("cert"),
		"--tls-cert-file=" + c.path("server.crt"),
		"--tls-private-key-file=" + c.path("server.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-key-file=" + c.path("token.keys"),
		"--service-account-signing-key-file=" + c.path("token.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--kubelet-client-certificate=" + c.path("kubelet.crt"),
		"--kubelet-client-key=" + c.path("kubelet.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--endpoint-reconciler-type=none", // Loopback is not a valid endpoint of the kubernetes service.
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--audit-policy-file=" + c.path("audit-policy"),
		"--audit-log-path=" + c.logPath(auditLog),
		"--audit-log-mode=blocking",                    // A request that was answered is in the log.
		"--audit-log-maxsize=100000",                   // In megabytes; zero means 100. One file: Requests reads no other.
		"--shutdown-watch-termination-grace-period=1s", // Else a graceful stop waits a minute for open watches.
	}
}

// apiServerReady also waits for the default namespace, which the server makes soon after it says it is ready.
func (c *Cluster) apiServerReady(ctx context.Context) error {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		if err := c.client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error(); err != nil {
			return fmt.Errorf("GET %s: %w", path, err)
		}
	}
	return nil
}

// StopAPIServer ends the API server and leaves etcd running, so that a later [Cluster.StartAPIServer] serves the same
// objects to the same credentials. Open watches are ended after a second. It does nothing when the server is stopped.
func (c *Cluster) StopAPIServer() error {
	return c.endAPIServer(func(p *process.Process) error { return p.Stop(stopGrace) })
}

// KillAPIServer is StopAPIServer by SIGKILL: clients see their watches break off instead of ending cleanly.
func (c *Cluster) KillAPIServer() error { return c.endAPIServer((*process.Process).Kill) }

func (c *Cluster) endAPIServer(end func(*process.Process) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer == nil {
		return nil
	}
	server := c.apiServer
	c.apiServer = nil
	return end(server)
}

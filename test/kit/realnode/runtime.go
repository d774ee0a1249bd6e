package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// Runtime is a container runtime.
type Runtime struct {
	// Name identifies it in messages and logs.
	Name string

	bin    string // Below the checkout's bin.
	config string // Of containerd, a template.
}

// Containerd2 is containerd 2 with runc 1.3, built from their modules.
func Containerd2() Runtime {
	return Runtime{Name: "containerd2", bin: "node", config: containerd2Config}
}

// Debian is what the distribution of this machine packages.
func Debian() Runtime { return Runtime{Name: "debian", bin: "debian", config: containerd1Config} }

func (r Runtime) program(repo, name string) string {
	root := filepath.Join(repo, "bin", r.bin)
	for _, dir := range []string{"", "bin", "usr/bin", "usr/sbin"} {
		path := filepath.Join(root, dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return filepath.Join(root, name)
}

func (r Runtime) programs(repo string) []string {
	var paths []string
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		paths = append(paths, r.program(repo, name))
	}
	return append(paths, pluginDir(repo), busybox(repo))
}

// pluginDir holds the network plugins, which both runtimes take from the distribution.
func pluginDir(repo string) string { return filepath.Join(repo, "bin", "debian", "usr", "lib", "cni") }

const (
	runtimeSocket = "/run/containerd/containerd.sock"
	// runtimeTimeout is long: an image is unpacked on a busy machine.
	runtimeTimeout = time.Minute
)

// The parts that both configurations of containerd have. A process without CAP_SYS_RESOURCE cannot lower its score for the
// case that memory runs out, and tests may run without.
const (
	containerdPlaces = `root = "{{.Root}}"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "` + runtimeSocket + `"
`
	containerd1Config = `version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt"]
` + containerdPlaces + `
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PauseImage + `"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{{.Runc}}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.Plugins}}"
    conf_dir = "{{.Networks}}"
`
	containerd2Config = `version = 3
disabled_plugins = ["io.containerd.internal.v1.opt"]
` + containerdPlaces + `
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "` + PauseImage + `"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{{.Runc}}"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{{.Plugins}}"]
    conf_dir = "{{.Networks}}"
`
	// networkConfig connects each pod to the node by a separate link.
	networkConfig = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": false, "ipam":
  {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "%s"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`
)

func (m *Node) writeRuntimeFiles() error {
	parsed, err := template.New("containerd").Parse(m.cfg.Runtime.config)
	if err != nil {
		return err
	}
	var text strings.Builder
	err = parsed.Execute(&text, map[string]string{
		"Root": m.path("containerd"), "Runc": m.cfg.Runtime.program(m.cfg.Repo, "runc"),
		"Plugins": pluginDir(m.cfg.Repo), "Networks": m.path("cni"),
	})
	if err != nil {
		return err
	}
	pods, err := freePodRange()
	if err != nil {
		return err
	}
	return errors.Join(m.write("containerd.toml", text.String()), m.write("cni/10-pods.conflist", fmt.Sprintf(networkConfig, pods)))
}

// write writes one of the machine's own files, which nobody reads yet.
func (m *Node) write(name, text string) error {
	return os.WriteFile(m.path(name), []byte(text), 0o600)
}

// bootRuntime boots the node as far as it goes without a control plane.
func (m *Node) bootRuntime(ctx context.Context) error {
	images, err := m.makeImages(ctx)
	if err != nil {
		return err
	}
	if err := m.boot(ctx); err != nil {
		return err
	}
	return m.ImportImage(ctx, images)
}

func (m *Node) boot(ctx context.Context) error {
	init, err := m.startInit(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.init = init
	m.mu.Unlock()
	return m.StartRuntime(ctx)
}

// StartRuntime starts containerd and waits until it answers. It does nothing while containerd runs.
func (m *Node) StartRuntime(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.containerd != nil {
		return nil
	}
	program := m.cfg.Runtime.program(m.cfg.Repo, "containerd")
	path := filepath.Dir(program) + ":" + os.Getenv("PATH") // It looks for its shim there.
	p, err := process.Start(context.WithoutCancel(ctx), process.Config{
		Path: program, Args: []string{"--config", m.path("containerd.toml")}, Env: append(os.Environ(), "PATH="+path),
		LogFile: m.log("containerd"), Beside: m.init.PID(),
	})
	if err != nil {
		return err
	}
	m.containerd = p
	conn, err := grpc.NewClient("unix://"+fmt.Sprintf("/proc/%d/root", m.init.PID())+runtimeSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return p.Await(ctx, runtimeTimeout, func(ctx context.Context) error {
		return answersKubelets(ctx, conn)
	})
}

// answersKubelets asks for the runtime's version as a kubelet does at its start, which ends when there is no answer: containerd
// listens, and answers its own client, before its part for kubelets is ready.
func answersKubelets(ctx context.Context, conn grpc.ClientConnInterface) error {
	return conn.Invoke(ctx, "/runtime.v1.RuntimeService/Version", &emptypb.Empty{}, &emptypb.Empty{})
}

// KillRuntime ends containerd by SIGKILL. Containers run on.
func (m *Node) KillRuntime() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return kill(&m.containerd)
}

// ImportImage gives the runtime an image, a docker or OCI archive.
func (m *Node) ImportImage(ctx context.Context, archive string) error {
	cmd := exec.CommandContext(ctx, m.cfg.Runtime.program(m.cfg.Repo, "ctr"), "--namespace", "k8s.io", "images", "import", archive)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := m.Attach(cmd); err != nil {
		return fmt.Errorf("import %s: %w: %s", archive, err, strings.TrimSpace(output.String()))
	}
	return nil
}

// Attach runs a command on the node, as root, with the standard files that the command names, and returns how it ended.
// [Node.Stop] kills it with all that it has started.
func (m *Node) Attach(cmd *exec.Cmd) error {
	m.mu.Lock()
	init := m.init.PID()
	m.mu.Unlock()
	return process.RunBeside(cmd, init)
}

// Root is where tests see the node's files.
func (m *Node) Root() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("/proc/%d/root", m.init.PID())
}

// Mounts returns the lines of the node's mount table that have the text. A node that is off has no mount table, which is an
// error.
func (m *Node) Mounts(text string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init == nil {
		return nil, errors.New("the node is off")
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", m.init.PID()))
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found, nil
}

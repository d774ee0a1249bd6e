// Package vmnode tests pods with volumes on a node with version 2 of control groups. The machine of the tests may have version
// 1, so that an emulated machine runs the kubelet, containerd and the rest of a cluster.
package vmnode

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/pace"
	"github.com/liveconfig-csi/liveconfig/test/kit/vm"
)

// kernel is the oldest of bin/vm on which pods have user namespaces: a tmpfs maps owners from Linux 6.3 on.
const kernel = "amd64-6.12"

// TestPods runs the tests of what pods do with volumes every day. The guest installs the driver as in the README.
func TestPods(t *testing.T) {
	m := vm.NewMachine(t, kernel, "amd64")
	m.Memory = 6144
	// Emulated processors share one clock, and this guest needs no protection from other guests.
	m.Append = []string{"mitigations=off", "tsc=reliable", "clocksource=tsc"}
	for _, module := range []string{"overlay", "veth"} {
		m.Files["/modules/"+module+".ko.xz"] = filepath.Join(m.Repo, "bin", "vm", kernel, module+".ko.xz")
		m.AddShell("load "+module, "xzcat /modules/"+module+".ko.xz >/tmp/"+module+".ko && insmod /tmp/"+module+".ko")
	}
	addCluster(t, m)
	addInstallation(t, m)
	step := m.AddTests("test/e2e", "-test.timeout=20m", "-test.run=^TestCoreOnContainerd2$")
	step.Timeout = 20 * time.Minute
	step.Env = append(step.Env, pace.Variable+"=10", "GOGC=400")
	m.Run()
}

// addCluster adds the programs of a node and of its control plane.
func addCluster(t *testing.T, m *vm.Machine) {
	t.Helper()
	others := []string{"storage-e2e"}
	for _, folder := range []string{"bin/k8s", "bin/node", "bin/debian/usr/lib/cni"} {
		found, err := filepath.Glob(filepath.Join(m.Repo, folder, "[^.]*"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no programs (run `make bin/node` to get them): %v", folder, err)
		}
		for _, program := range found {
			if name := filepath.Base(program); !slices.Contains(others, name) {
				m.AddProgram("/repo/"+folder+"/"+name, program)
			}
		}
	}
	m.Files["/repo/bin/debian/bin/busybox"] = m.Files["/bin/busybox"]
	m.Files["/programs/box"] = m.Build("./kit/realnode/box")
}

// addInstallation adds what the README's commands need, and an image of the driver.
func addInstallation(t *testing.T, m *vm.Machine) {
	t.Helper()
	for _, page := range []string{"README.md", "deploy", "examples", "cmd/liveconfig-driver"} {
		m.Files["/repo/"+page] = filepath.Join(m.Repo, page)
	}
	m.AddProgram("/repo/bin/tools/helm", filepath.Join(m.Repo, "bin/tools/helm"))
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	m.AddProgram("/usr/bin/bash", bash)
	out := filepath.Join(t.TempDir(), "image")
	build := exec.CommandContext(t.Context(), "go", "-C", "deploy/image", "run", ".",
		"--image=registry.example.com/liveconfig:0.1.0", "--platforms=linux/"+runtime.GOARCH, "--out="+out)
	build.Dir = m.Repo
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the image: %v\n%s", err, output)
	}
	m.Files["/programs/docker.tar"] = filepath.Join(out, "docker.tar")
}

// Package vm tests the driver on other kernels and processors than this machine's: it boots Debian's kernels under emulation and
// runs static builds of tests in them.
package vm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/vm"
)

// kernels returns those that the driver is tested on, by the folders of bin/vm, with their processors.
func kernels() map[string]string {
	return map[string]string{"amd64-6.1": "amd64", "amd64-6.12": "amd64", "arm64-6.1": "arm64"}
}

// suites are the packages that call the kernel, whose tests run in each machine.
func suites() []string {
	return []string{
		"pkg/files/volumefs", "pkg/files/atomicdir", "pkg/files/mountns", "pkg/driver/lockdown", "pkg/exec/fileset", "pkg/exec/supervise",
	}
}

// wholeDriver are tests of test/driver that need no API server, beside those that run with one and without.
func wholeDriver() []string {
	return []string{
		"TestTheProcessIsLockedDown", "TestAManifestWithAMistakeKeepsTheFiles", "TestOtherNamespacesNeedAnAPIServer",
	}
}

// TestKernels runs the tests in each kernel.
func TestKernels(t *testing.T) {
	t.Parallel()
	for name, arch := range kernels() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, name, arch)
			for _, suite := range suites() {
				m.addSuite(suite)
			}
			m.addSanity()
			m.addDriver()
			m.Run()
		})
	}
}

// TestSELinux runs the driver on kernels with SELinux: before a policy is loaded, and with Debian's, permissive and enforcing.
func TestSELinux(t *testing.T) {
	t.Parallel()
	for _, kernel := range []string{"amd64-6.1", "amd64-6.12"} {
		t.Run(kernel, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, kernel, kernels()[kernel])
			m.addSELinux()
			m.Run()
		})
	}
}

// machine is a virtual machine for a test.
type machine struct {
	*vm.Machine

	t *testing.T
}

func newMachine(t *testing.T, kernel, arch string) machine {
	t.Helper()
	return machine{Machine: vm.NewMachine(t, kernel, arch), t: t}
}

// addSuite adds the tests of a package. An emulated arm64 is some ten times slower than amd64, so it
// leaves out the tests that repeat others many times: what they repeat is the same there.
func (m machine) addSuite(folder string) {
	slow := map[string]string{
		"pkg/files/atomicdir": "TestStopAnywhere|TestOutOfSpace|TestAFileBecomesAPipeAllTheTime|TestReaders",
		"pkg/exec/fileset":    "TestWatchKeepsQuiet", // It takes half a second without an event for the end of them.
	}
	var args []string
	if m.Arch == "arm64" && slow[folder] != "" {
		args = []string{"-test.skip=^(" + slow[folder] + ")$"}
	}
	m.AddTests(folder, args...)
}

// addProgram adds the driver, where [environment] looks for programs that are built already.
func (m machine) addProgram() {
	if m.Files["/programs/liveconfig-driver"] == "" {
		m.Files["/programs/liveconfig-driver"] = m.Build("./cmd/liveconfig-driver")
		m.Files["/repo/cmd/liveconfig-driver/README"] = filepath.Join(m.Repo, "README.md") // By the folder a checkout is known.
	}
}

func (m machine) addSanity() {
	m.addProgram()
	m.AddTests("test/sanity")
}

// addDriver adds the tests of the whole driver that work with manifests.
func (m machine) addDriver() {
	m.addProgram()
	both := testsThatCall(m.t, filepath.Join(m.Repo, "test", "driver"), "overOrigins", "bareOrigins")
	if len(both) < 8 {
		m.t.Fatalf("only %d tests of test/driver work with manifests: %q", len(both), both)
	}
	atOnce := "-test.parallel=2"
	if m.Arch == "arm64" { // Memory is counted alike, and a driver that starts beside another one takes too long.
		atOnce = "-test.parallel=1"
		both = slices.DeleteFunc(both, func(name string) bool { return strings.HasPrefix(name, "TestMemory") })
	}
	step := m.AddTests("test/driver", atOnce, "-test.run=^("+strings.Join(both, "|")+")$/^manifests$")
	step.Name += " (manifests)"
	m.AddTests("test/driver", "-test.run=^("+strings.Join(wholeDriver(), "|")+")$")
}

// addSELinux adds tests in three states of SELinux. The kernel takes a policy in one write only.
func (m machine) addSELinux() {
	m.addProgram()
	m.Append = []string{"security=selinux", "selinux=1", "enforcing=0"}
	m.Files["/policy"] = filepath.Join(m.Repo, "bin", "vm", "selinux", "policy")
	m.AddShell("mount SELinux's files", "mount -t selinuxfs selinuxfs /sys/fs/selinux")
	m.addLabels("unknown")
	m.AddShell("load a policy", "dd if=/policy of=/sys/fs/selinux/load bs=64M")
	m.addLabels("permissive")
	m.AddShell("enforce the policy", "echo 1 >/sys/fs/selinux/enforce")
	m.addLabels("enforcing")
}

// addLabels adds the test of labels, in a state of SELinux.
func (m machine) addLabels(state string) {
	step := m.AddTests("test/driver", "-test.run=^TestLabelsOfVolumes$")
	step.Name += " (SELinux " + state + ")"
	step.Env = append(step.Env, "LIVECONFIG_SELINUX="+state)
}

// testsThatCall returns the tests of a directory that call one of the functions.
func testsThatCall(t *testing.T, dir string, functions ...string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") && calls(f.Body, functions) {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	return tests
}

func calls(body ast.Node, functions []string) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name, ok := call.Fun.(*ast.Ident)
		found = found || ok && slices.Contains(functions, name.Name)
		return true
	})
	return found
}

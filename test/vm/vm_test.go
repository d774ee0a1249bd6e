// Package vm tests the driver on other kernels and processors than this machine's: it boots Debian's kernels under emulation and
// runs static builds of tests in them.
package vm

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/vm"
)

// bootTimeout is how long all steps of one machine may take.
const bootTimeout = 25 * time.Minute

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
	return []string{"TestTheProcessIsLockedDown", "TestAManifestWithAMistakeKeepsTheFiles"}
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
			m.run()
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
			m.run()
		})
	}
}

// machine is a virtual machine and the steps of a test.
type machine struct {
	t              *testing.T
	repo, dir, log string
	cfg            vm.Config
}

func newMachine(t *testing.T, kernel, arch string) *machine {
	t.Helper()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, repo: repo, dir: t.TempDir(), log: filepath.Join(repo, "bin", "test", "vm", t.Name()+".log")}
	folder := filepath.Join(repo, "bin", "vm", kernel)
	m.cfg = vm.Config{
		Kernel: filepath.Join(folder, "vmlinuz"), Arch: arch, Dir: m.dir, Files: map[string]string{"/bin/busybox": filepath.Join(folder, "busybox")},
	}
	m.cfg.Init = m.build("./vm/guest")
	return m
}

// build builds a program, or the tests of a package if its path ends in .test, for the machine's processor and without C code.
// Paths are those of the tests' module or, if they begin with pkg or cmd, of the product's.
func (m *machine) build(target string) string {
	m.t.Helper()
	module := "test"
	if strings.HasPrefix(target, "./pkg/") || strings.HasPrefix(target, "./cmd/") {
		module = "."
	}
	args := []string{"build"}
	source, isTest := strings.CutSuffix(target, ".test")
	if isTest {
		args = []string{"test", "-c", "-vet=off"}
	}
	out := filepath.Join(m.dir, path.Base(target))
	cmd := exec.CommandContext(m.t.Context(), "go", append(args, "-trimpath", "-ldflags=-s -w", "-o", out, source)...)
	cmd.Dir = filepath.Join(m.repo, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+m.cfg.Arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("build %s for %s: %v\n%s", target, m.cfg.Arch, err, text)
	}
	return out
}

// addTests adds a step that runs tests where their package is in a checkout, with its test data.
func (m *machine) addTests(folder string, args ...string) {
	m.t.Helper()
	name := path.Base(folder) + ".test"
	at := "/repo/" + folder
	m.cfg.Files[at+"/"+name] = m.build("./" + strings.TrimPrefix(folder, "test/") + ".test")
	if data := filepath.Join(m.repo, folder, "testdata"); isThere(data) {
		m.cfg.Files[at+"/testdata"] = data
	}
	m.cfg.Steps = append(m.cfg.Steps, vm.Step{
		Name: strings.TrimSpace(folder + " " + stepName(args)), Dir: at, Env: []string{"LIVECONFIG_PROGRAMS=/programs"},
		Args: append([]string{"./" + name, "-test.v", "-test.timeout=9m"}, args...),
	})
}

// stepName distinguishes two steps of one package.
func stepName(args []string) string {
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasSuffix(a, "manifests$") }) {
		return "(manifests)"
	}
	return ""
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// addSuite adds the tests of a package. An emulated arm64 is some ten times slower than amd64, so it
// leaves out the tests that repeat others many times: what they repeat is the same there.
func (m *machine) addSuite(folder string) {
	slow := map[string]string{
		"pkg/files/atomicdir": "TestStopAnywhere|TestOutOfSpace|TestAFileBecomesAPipeAllTheTime|TestReaders",
		"pkg/exec/fileset":    "TestWatchKeepsQuiet", // It takes half a second without an event for the end of them.
	}
	var args []string
	if m.cfg.Arch == "arm64" && slow[folder] != "" {
		args = []string{"-test.skip=^(" + slow[folder] + ")$"}
	}
	m.addTests(folder, args...)
}

// addProgram adds the driver, where [environment] looks for programs that are built already.
func (m *machine) addProgram() {
	if m.cfg.Files["/programs/liveconfig-driver"] == "" {
		m.cfg.Files["/programs/liveconfig-driver"] = m.build("./cmd/liveconfig-driver")
		m.cfg.Files["/repo/cmd/liveconfig-driver/README"] = filepath.Join(m.repo, "README.md") // By the folder a checkout is known.
	}
}

func (m *machine) addSanity() {
	m.addProgram()
	m.addTests("test/sanity")
}

// addDriver adds the tests of the whole driver that work with manifests.
func (m *machine) addDriver() {
	m.addProgram()
	both := testsThatCall(m.t, filepath.Join(m.repo, "test", "driver"), "origins", "bareOrigins")
	if len(both) < 3 {
		m.t.Fatalf("only %d tests of test/driver work with manifests: %q", len(both), both)
	}
	atOnce := "-test.parallel=2"
	if m.cfg.Arch == "arm64" { // Memory is counted alike, and a driver that starts beside another one takes too long.
		atOnce = "-test.parallel=1"
		both = slices.DeleteFunc(both, func(name string) bool { return strings.HasPrefix(name, "TestMemory") })
	}
	m.addTests("test/driver", atOnce, "-test.run=^("+strings.Join(both, "|")+")$/^manifests$")
	m.addTests("test/driver", "-test.run=^("+strings.Join(wholeDriver(), "|")+")$")
}

// addSELinux adds tests in three states of SELinux. The kernel takes a policy in one write only.
func (m *machine) addSELinux() {
	m.addProgram()
	m.cfg.Append = []string{"security=selinux", "selinux=1", "enforcing=0"}
	m.cfg.Files["/policy"] = filepath.Join(m.repo, "bin", "vm", "selinux", "policy")
	m.addShell("mount SELinux's files", "mount -t selinuxfs selinuxfs /sys/fs/selinux")
	m.addLabels("unknown")
	m.addShell("load a policy", "dd if=/policy of=/sys/fs/selinux/load bs=64M")
	m.addLabels("permissive")
	m.addShell("enforce the policy", "echo 1 >/sys/fs/selinux/enforce")
	m.addLabels("enforcing")
}

// addLabels adds the test of labels, in a state of SELinux.
func (m *machine) addLabels(state string) {
	m.addTests("test/driver", "-test.run=^TestLabelsOfVolumes$")
	step := &m.cfg.Steps[len(m.cfg.Steps)-1]
	step.Name += " (SELinux " + state + ")"
	step.Env = append(step.Env, "LIVECONFIG_SELINUX="+state)
}

func (m *machine) addShell(name, script string) {
	m.cfg.Steps = append(m.cfg.Steps, vm.Step{Name: name, Dir: "/", Args: []string{"sh", "-c", script}})
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

// run boots the machine and wants every step to pass. The guest's output goes to a file, whose end is shown on failure.
func (m *machine) run() {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.log), 0o755); err != nil {
		m.t.Fatal(err)
	}
	log, err := os.Create(m.log)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	m.cfg.Output = log
	ctx, cancel := context.WithTimeout(m.t.Context(), bootTimeout)
	defer cancel()
	results, err := vm.Run(ctx, m.cfg)
	for _, r := range results {
		m.t.Logf("%-40s %8s %s", r.Name, r.Took.Round(100*time.Millisecond), r.Err)
		if r.Err != "" {
			m.t.Errorf("%s: %s", r.Name, r.Err)
		}
	}
	if err != nil {
		m.t.Error(err)
	}
	m.wantAllRun()
	if m.t.Failed() {
		m.t.Logf("%s ends with:\n%s", m.log, tail(m.log))
	}
}

// wantAllRun looks into what the guest wrote for tests that did not run: outside, no tool sees them.
func (m *machine) wantAllRun() {
	m.t.Helper()
	text, err := os.ReadFile(m.log)
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "--- SKIP") || strings.Contains(line, "no tests to run") {
			m.t.Errorf("not all tests ran: %s", strings.TrimSpace(line))
		}
	}
}

func tail(name string) string {
	file, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	const most = 16 << 10
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

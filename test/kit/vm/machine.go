package vm

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// bootTimeout is how long all steps of one machine may take.
const bootTimeout = 45 * time.Minute

// Machine is a virtual machine for the steps of a test, with a checkout at /repo.
type Machine struct {
	// Repo is the root of this machine's checkout.
	Repo string
	// Arch is the processor, as Go calls it.
	Arch string
	// Append are further parameters of the kernel.
	Append []string
	// Memory is in MiB.
	Memory int
	// Files are those of the guest: files and directories of this machine, by their paths in the guest.
	Files map[string]string
	Steps []Step

	t            *testing.T
	kernel, init string // Files: init is the program of test/vm/guest.
	dir, log     string
}

// NewMachine returns a machine with a kernel, by its folder of bin/vm, for a processor, as Go calls it. The test ends at errors.
func NewMachine(t *testing.T, kernel, arch string) *Machine {
	t.Helper()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(repo, "bin", "vm", kernel)
	m := &Machine{
		Repo: repo, Arch: arch, Memory: 2048, Files: map[string]string{"/bin/busybox": filepath.Join(folder, "busybox")},
		t: t, kernel: filepath.Join(folder, "vmlinuz"),
		dir: t.TempDir(), log: filepath.Join(repo, "bin", "test", "vm", t.Name()+".log"),
	}
	m.init = m.Build("./vm/guest")
	return m
}

// Build builds a program, or the tests of a package if its path ends in .test, for the machine's processor and without C code.
// Paths are those of the tests' module or, if they begin with pkg or cmd, of the product's.
func (m *Machine) Build(target string) string {
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
	cmd.Dir = filepath.Join(m.Repo, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+m.Arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("build %s for %s: %v\n%s", target, m.Arch, err, text)
	}
	return out
}

// AddTests adds a step that runs tests where their package is in the checkout, with its test data. The caller may change the step.
func (m *Machine) AddTests(folder string, args ...string) *Step {
	m.t.Helper()
	name := path.Base(folder) + ".test"
	at := "/repo/" + folder
	m.Files[at+"/"+name] = m.Build("./" + strings.TrimPrefix(folder, "test/") + ".test")
	if data := filepath.Join(m.Repo, folder, "testdata"); isThere(data) {
		m.Files[at+"/testdata"] = data
	}
	m.Steps = append(m.Steps, Step{
		Name: folder, Dir: at, Env: []string{"LIVECONFIG_PROGRAMS=/programs"},
		Args: append([]string{"./" + name, "-test.v", "-test.timeout=19m"}, args...),
	})
	return &m.Steps[len(m.Steps)-1]
}

// AddProgram adds a program of this machine with the libraries that it is linked with.
func (m *Machine) AddProgram(to, from string) {
	m.t.Helper()
	m.Files[to] = from
	file, err := elf.Open(from)
	if err != nil {
		m.t.Fatalf("open the program %s: %v", from, err)
	}
	defer func() { _ = file.Close() }()
	if file.Section(".interp") == nil {
		return
	}
	out, err := exec.CommandContext(m.t.Context(), "ldd", from).Output()
	if err != nil {
		m.t.Fatalf("ldd %s: %v", from, err)
	}
	for field := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(field, "/") {
			continue
		}
		if m.Files[field], err = filepath.EvalSymlinks(field); err != nil {
			m.t.Fatal(err)
		}
	}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// AddShell adds a step that runs a shell.
func (m *Machine) AddShell(name, script string) {
	m.Steps = append(m.Steps, Step{Name: name, Dir: "/", Args: []string{"sh", "-c", script}})
}

// Run boots the machine and wants every step to pass. The guest's output goes to a file, whose end is shown on failure.
func (m *Machine) Run() {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.log), 0o755); err != nil {
		m.t.Fatal(err)
	}
	log, err := os.Create(m.log)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	ctx, cancel := context.WithTimeout(m.t.Context(), bootTimeout)
	defer cancel()
	results, err := m.run(ctx, log)
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
		m.t.Logf("%s ends with:\n%s", m.log, process.Tail(m.log, 16<<10))
	}
}

// wantAllRun looks into what the guest wrote for tests that did not run: outside, no tool sees them.
func (m *Machine) wantAllRun() {
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

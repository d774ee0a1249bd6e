package lockdown_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/lockdown"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
)

// roleVariable makes the test binary play one of the roles instead of running tests.
const roleVariable = "LOCKDOWN_TEST_ROLE"

// timeout is how long a process may take that takes milliseconds.
const timeout = time.Minute

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	os.Exit(mountns.Main(m))
}

// build builds this test binary as the driver ships: without C code, and therefore without the race detector. With the same
// flags, what it is made of is compiled once for both.
func build(t *testing.T) string {
	t.Helper()
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"}) {
		return "/proc/self/exe" // It is built so already.
	}
	path := filepath.Join(t.TempDir(), "shipped")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the tests without C code: %v\n%s", err, out)
	}
	return path
}

// result is what came of a process that played a role.
type result struct {
	stdout, stderr string
	state          *os.ProcessState
}

// run lets a binary play a role.
func run(t *testing.T, binary, role string, adjust ...func(*exec.Cmd)) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	for _, f := range adjust {
		f(cmd)
	}
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{stdout: strings.TrimSpace(stdout.String()), stderr: stderr.String(), state: cmd.ProcessState}
}

// inUserNamespace makes the process root only in a new user namespace.
func inUserNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// wantOutput fails the test unless the process ended well and printed the text.
func (r result) wantOutput(t *testing.T, want string) {
	t.Helper()
	if r.stdout != want || !r.state.Success() {
		t.Errorf("output = %q, %v, want %q; standard error:\n%s", r.stdout, r.state, want, r.stderr)
	}
}

// wantEnded fails the test unless the kernel ended the process for a forbidden call, without a core file.
func (r result) wantEnded(t *testing.T) {
	t.Helper()
	status, ok := r.state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != unix.SIGSYS || status.CoreDump() || r.stdout != "" {
		t.Errorf("output = %q, %v, want none and an end by SIGSYS without a core file; standard error:\n%s",
			r.stdout, r.state, r.stderr)
	}
}

// task is what the kernel reports of a thread.
type task map[string]uint64

func parseTask(t *testing.T, line string) task {
	t.Helper()
	parsed := task{}
	for field := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseUint(value, 16, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		parsed[name] = n
	}
	return parsed
}

// TestApply runs what follows in two builds: the one that ships, and the one that tests run in.
func TestApply(t *testing.T) {
	t.Parallel()
	for name, binary := range map[string]string{"as it ships": build(t), "as it is tested": "/proc/self/exe"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testThreads(t, binary)
			testPrograms(t, binary)
			testCalls(t, binary)
		})
	}
}

func testThreads(t *testing.T, binary string) {
	t.Helper()
	places := map[string]func(*exec.Cmd){"here": func(*exec.Cmd) {}, "in a user namespace": inUserNamespace}
	for place, adjust := range places {
		t.Run("every thread "+place, func(t *testing.T) {
			t.Parallel()
			r := run(t, binary, "threads", adjust)
			lines := strings.Split(r.stdout, "\n")
			if len(lines) < 21 || !r.state.Success() {
				t.Fatalf("output = %q, %v, want at least 20 threads; standard error:\n%s", r.stdout, r.state, r.stderr)
			}
			before := parseTask(t, lines[0])
			want := task{"NoNewPrivs": 1, "Seccomp": 2, "CapInh": 0, "CapAmb": 0}
			for _, set := range []string{"CapPrm", "CapEff", "CapBnd"} {
				want[set] = before[set] & lockdown.Needed
			}
			if strings.Contains(r.stderr, "The driver drops no capabilities") {
				if binary != "/proc/self/exe" {
					t.Errorf("the build that ships says %q", r.stderr)
				}
				maps.Copy(want, before)
				want["NoNewPrivs"], want["Seccomp"] = 1, 2
			}
			for i, line := range lines[1:] {
				if got := parseTask(t, line); !maps.Equal(got, want) {
					t.Errorf("thread %d of %d: %x, want %x", i, len(lines)-1, got, want)
				}
			}
		})
	}
}

func testPrograms(t *testing.T, binary string) {
	t.Helper()
	for _, role := range []string{"exec", "execveat"} {
		t.Run(role+" ends the process", func(t *testing.T) {
			t.Parallel()
			run(t, binary, role).wantEnded(t)
		})
	}
	t.Run("starting a program fails", func(t *testing.T) {
		t.Parallel()
		run(t, binary, "start").wantOutput(t, "fork/exec /proc/self/exe: operation not permitted")
	})
	t.Run("a core has no room", func(t *testing.T) { // A limit of 0 is not for what a program is piped, one of 1 is.
		t.Parallel()
		run(t, binary, "core").wantOutput(t, "1 1")
	})
	t.Run("a limit of 0 for cores that cannot be raised stays, and is logged", func(t *testing.T) {
		t.Parallel()
		r := run(t, binary, "core-files", inUserNamespace)
		r.wantOutput(t, "0 0")
		if !strings.Contains(r.stderr, "A crash may leave a core to a program") {
			t.Errorf("log = %q, want it to name the limit", r.stderr)
		}
	})
}

func testCalls(t *testing.T, binary string) {
	t.Helper()
	const all = ^uintptr(0)
	for name, tc := range map[string]struct {
		number, value uintptr
		want          string
	}{
		"a call that is harmless passes":     {unix.SYS_GETPID, 0, ""},
		"ptrace":                             {unix.SYS_PTRACE, all, "EPERM"},
		"reading another process":            {unix.SYS_PROCESS_VM_READV, all, "EPERM"},
		"writing another process":            {unix.SYS_PROCESS_VM_WRITEV, all, "EPERM"},
		"taking another process's files":     {unix.SYS_PIDFD_GETFD, all, "EPERM"},
		"loading a module":                   {unix.SYS_INIT_MODULE, all, "EPERM"},
		"loading a module from a file":       {unix.SYS_FINIT_MODULE, all, "EPERM"},
		"removing a module":                  {unix.SYS_DELETE_MODULE, all, "EPERM"},
		"loading a kernel":                   {unix.SYS_KEXEC_LOAD, all, "EPERM"},
		"loading a kernel from a file":       {unix.SYS_KEXEC_FILE_LOAD, all, "EPERM"},
		"programs in the kernel":             {unix.SYS_BPF, all, "EPERM"},
		"counters":                           {unix.SYS_PERF_EVENT_OPEN, all, "EPERM"},
		"faults as files":                    {unix.SYS_USERFAULTFD, all, "EPERM"},
		"queues of calls":                    {unix.SYS_IO_URING_SETUP, all, "EPERM"},
		"another personality":                {unix.SYS_PERSONALITY, all, "EPERM"},
		"joining a namespace":                {unix.SYS_SETNS, all, "EPERM"},
		"making a namespace":                 {unix.SYS_UNSHARE, 0, "EPERM"},
		"another root":                       {unix.SYS_CHROOT, all, "EPERM"},
		"the root of all":                    {unix.SYS_PIVOT_ROOT, all, "EPERM"},
		"mounts of the old kind":             {unix.SYS_MOUNT, all, "EPERM"},
		"changing a file system":             {unix.SYS_FSPICK, all, "EPERM"},
		"files by their handles":             {unix.SYS_OPEN_BY_HANDLE_AT, all, "EPERM"},
		"adding keys":                        {unix.SYS_ADD_KEY, all, "EPERM"},
		"asking for keys":                    {unix.SYS_REQUEST_KEY, all, "EPERM"},
		"using keys":                         {unix.SYS_KEYCTL, all, "EPERM"},
		"restarting the node":                {unix.SYS_REBOOT, all, "EPERM"},
		"adding swap":                        {unix.SYS_SWAPON, all, "EPERM"},
		"removing swap":                      {unix.SYS_SWAPOFF, all, "EPERM"},
		"a process":                          {unix.SYS_CLONE, uintptr(unix.SIGCHLD), "EPERM"},
		"a process that shares its memory":   {unix.SYS_CLONE, unix.CLONE_VM | unix.CLONE_VFORK, "EPERM"},
		"a thread with a namespace":          {unix.SYS_CLONE, unix.CLONE_THREAD | unix.CLONE_NEWNS, "EPERM"},
		"a thread that the kernel refuses":   {unix.SYS_CLONE, unix.CLONE_THREAD, "EINVAL"}, // It passes.
		"what cannot be looked into":         {unix.SYS_CLONE3, all, "ENOSYS"},
		"a call that the kernel has not got": {4000, 0, "ENOSYS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, binary, fmt.Sprintf("call %d %d", tc.number, tc.value)).wantOutput(t, tc.want)
		})
	}
	for name, number := range foreignCalls() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, binary, fmt.Sprintf("call %d 0", number)).wantEnded(t)
		})
	}
}

// others reports whether this process's user namespace has other users than root. An ordinary user's has not.
func others(t *testing.T) bool {
	t.Helper()
	ids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(ids), "4294967295")
}

// TestNeeded shows that the driver's work takes exactly the capabilities that are kept.
func TestNeeded(t *testing.T) {
	t.Parallel()
	binary := build(t)
	uid, gid := 0, 0
	without := map[int]string{unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN is missing", unix.CAP_DAC_OVERRIDE: "permission denied"}
	if others(t) {
		uid, gid = 1000, 2000
		maps.Copy(without, map[int]string{
			unix.CAP_CHOWN: "chown .: operation not permitted", unix.CAP_FOWNER: "chmod .: operation not permitted",
			unix.CAP_FSETID: "has mode drwxr-xr-x",
		})
	}
	var tested uint64
	for c := range without {
		tested |= 1 << c
	}
	if others(t) && tested != lockdown.Needed {
		t.Errorf("the capabilities %x are kept, and %x are tested here", lockdown.Needed, tested)
	}
	work := func(t *testing.T, keep uint64) result {
		t.Helper()
		return run(t, binary, fmt.Sprintf("work %d %d %d %s", keep, uid, gid, filepath.Join(t.TempDir(), "target")))
	}
	t.Run("with all", func(t *testing.T) {
		t.Parallel()
		work(t, lockdown.Needed).wantOutput(t, "done")
	})
	for c, want := range without {
		t.Run(fmt.Sprintf("without capability %d", c), func(t *testing.T) {
			t.Parallel()
			r := work(t, lockdown.Needed&^(1<<c))
			if !strings.Contains(r.stdout, want) || !r.state.Success() {
				t.Errorf("output = %q, %v, want %q; standard error:\n%s", r.stdout, r.state, want, r.stderr)
			}
		})
	}
}

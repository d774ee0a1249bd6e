// Package userlimits runs a test in a new user namespace, where the test can use up what the kernel
// grants to a user. Nothing else on the machine notices. It does not know what the test does with
// it.
package userlimits

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Limit is one of the limits of a user namespace.
type Limit string

// The limits.
const (
	InotifyInstances Limit = "max_inotify_instances"
	InotifyWatches   Limit = "max_inotify_watches"
)

// variable names the test for which a process has been started.
const variable = "LIVECONFIG_USER_LIMITS"

// Enter runs the test again, in a new process and user namespace, and waits for its end. Enter
// returns true there, and false in the first process, where the test must return. Processes that
// the test starts are in the same namespace. The test must not be a subtest.
func Enter(t *testing.T) (inside bool) {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		return true
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pattern := "-test.run=^" + regexp.QuoteMeta(t.Name()) + "$"
	//nolint:gosec // It is this program.
	cmd := exec.CommandContext(t.Context(), path, pattern, "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), variable+"="+t.Name(), "GOCOVERDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in a new user namespace: %v\n%s", err, out)
	}
	return false
}

// Set sets a limit of the namespace. It fails where [Enter] has not made one.
func Set(t *testing.T, limit Limit, most int) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Fatal("set a limit in the shared user namespace: call userlimits.Enter")
	}
	file, err := os.OpenFile(filepath.Join("/proc/sys/user", string(limit)), os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprint(file, most)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatalf("set a limit of the user namespace (is /proc/sys writable?): %v", err)
	}
}

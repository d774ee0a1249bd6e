//go:build linux && (amd64 || arm64) && !race

package isolated

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The limits that a check does not come near, unless a library recurses for ever.
const (
	mostStack       = 1 << 20  // Of the first thread. Those of goroutines are in the heap.
	mostOfGoroutine = 16 << 20 // Of the stack of one goroutine.
)

// firstToEnd is the oom_score_adj of what the kernel takes first if memory is short.
const firstToEnd = "1000"

// dieTogether has the kernel end the process when the thread ends that started it. The caller
// stays on that thread until the process has ended.
func dieTogether(process *exec.Cmd) {
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// confine takes from this process what a check does not need, before it reads a byte of the edit.
// Nothing of it can be undone:
//
//  1. Files that it has inherited are closed, but for the three standard ones.
//  2. The kernel ends it first if memory is short, leaves no core of it, and lets no other process
//     of its user look into it.
//  3. The kernel limits its memory, its stack and its processor time.
//  4. The kernel refuses all system calls but those that a Go program needs to compute: none that
//     opens a file or a socket, starts a process, or reaches another one.
func confine() error {
	if err := closeInherited(); err != nil {
		return fmt.Errorf("close inherited files: %w", err)
	}
	endFirst()
	if err := limit(); err != nil {
		return fmt.Errorf("limit a check: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl dumpable", err)
	}
	return filterCalls()
}

// closeInherited closes files that the controller has left open for its children, which it does not
// do knowingly. Go's runtime has two: its poller, and its limit of processors.
func closeInherited() error {
	const own = "/proc/self/fd"
	names, err := os.ReadDir(own)
	if err != nil {
		return err
	}
	for _, entry := range names {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= unix.Stderr {
			continue
		}
		to, err := os.Readlink(filepath.Join(own, entry.Name()))
		switch {
		case err != nil: // It was the directory itself.
		case strings.HasPrefix(to, "anon_inode:[event"), strings.HasPrefix(to, "/sys/fs/cgroup/"):
		default:
			_ = unix.Close(fd) // Linux closes it whatever the error.
		}
	}
	return nil
}

// endFirst needs no privilege. Where /proc is read-only, the process is taken as others are.
func endFirst() {
	file, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	_, _ = file.WriteString(firstToEnd)
}

// limit sets the limits of the kernel and of Go's runtime.
//
// RLIMIT_DATA counts private memory that can be written, whether it is used or not. RLIMIT_AS would
// count the 1.3 GiB too that Go's runtime reserves without using them, which depends on its
// version. Before anything is checked, this program has mapped some 80 MiB of data, of which it
// uses 7 MiB: mostMemory comes on top of that.
func limit() error {
	mapped, err := mappedData()
	if err != nil {
		return err
	}
	seconds := uint64(mostTime.Seconds())
	for resource, most := range map[int]uint64{
		unix.RLIMIT_DATA: mapped + mostMemory, unix.RLIMIT_STACK: mostStack, unix.RLIMIT_CPU: seconds, unix.RLIMIT_CORE: 0,
	} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	runtime.GOMAXPROCS(1) // A collector on all processors needs their time, which counts.
	debug.SetMaxStack(mostOfGoroutine)
	debug.SetMemoryLimit(mostMemory * 4 / 5) // It collects before the kernel refuses memory.
	return nil
}

// mappedData returns how many bytes the process has mapped that RLIMIT_DATA counts.
func mappedData() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	const dataField = 5 // In pages, with those of the stack: see proc(5).
	fields := strings.Fields(string(text))
	if len(fields) <= dataField {
		return 0, errors.New("/proc/self/statm has too few fields")
	}
	pages, err := strconv.ParseUint(fields[dataField], 10, 64)
	return pages * uint64(os.Getpagesize()), err //nolint:gosec // It is positive.
}

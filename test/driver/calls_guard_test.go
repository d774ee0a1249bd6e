package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// calls are system calls by name.
type calls map[string]int

func (c calls) sum() (n int) {
	for _, k := range c {
		n += k
	}
	return n
}

func (c calls) minus(before calls) calls {
	diff := calls{}
	for name, n := range c {
		if n != before[name] {
			diff[name] = n - before[name]
		}
	}
	return diff
}

// counter counts the system calls of the bench's driver. It is another process, since a process that traces its child
// takes what its parent waits for.
type counter struct {
	t   testing.TB
	in  io.Writer
	out *json.Decoder
}

// countCalls begins to count.
func (b *rig) countCalls() *counter {
	b.T.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(b.T.Context()), "/proc/self/exe", "-test.run=^TestGuardSystemCalls$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", traceVariable, b.Node.PID()))
	cmd.Stderr = b.T.Output()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	expect.NoError(b.T, errors.Join(inErr, outErr, cmd.Start()))
	b.T.Cleanup(func() { // It ends with its input, and lets go of the driver.
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			b.T.Errorf("what counts system calls: %v", err)
		}
	})
	return &counter{t: b.T, in: in, out: json.NewDecoder(out)}
}

// now returns the calls so far.
func (c *counter) now() calls {
	c.t.Helper()
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		c.t.Fatal(err)
	}
	var all calls
	expect.NoError(c.t, c.out.Decode(&all))
	return all
}

// rest returns the calls so far when there have been no more for a while.
func (c *counter) rest() (all calls) {
	c.t.Helper()
	const quiet = 100 * time.Millisecond
	since := time.Now()
	expect.Eventually(c.t, fixture.Soon, func() error {
		if now := c.now(); !maps.Equal(now, all) {
			all, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return errors.New("the driver does not come to rest")
		}
		return nil
	})
	return all
}

// serveCalls counts the calls of a process, and answers each line with them.
func serveCalls(pid int, in io.Reader, out io.Writer) error {
	tr := &tracer{pid: pid, all: calls{}}
	attached := make(chan error, 1)
	go tr.run(attached)
	if err := <-attached; err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		tr.mu.Lock()
		err := json.NewEncoder(out).Encode(tr.all)
		tr.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// tracer stops each thread of a process at each system call.
type tracer struct {
	pid int

	mu  sync.Mutex // Guards all.
	all calls
}

// run traces until the process ends. It stays on its thread, as the kernel wants it.
func (tr *tracer) run(attached chan<- error) {
	runtime.LockOSThread()
	attached <- tr.attach()
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return
		}
		if status.Stopped() {
			tr.resume(tid, status)
		}
	}
}

// attach takes hold of the threads that there are. Those that they make come by themselves.
func (tr *tracer) attach() error {
	held := map[int]bool{}
	for found := true; found; {
		found = false
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", tr.pid))
		if err != nil {
			return err
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil || held[tid] {
				continue
			}
			held[tid], found = true, true
			if err := hold(tid); err != nil {
				return fmt.Errorf("trace thread %d (is /proc/sys/kernel/yama/ptrace_scope 3, or ptrace forbidden?): %w", tid, err)
			}
		}
	}
	return nil
}

func hold(tid int) error {
	if err := unix.PtraceSeize(tid); errors.Is(err, unix.EPERM) && isTraced(tid) {
		return nil // It was made by one that is held already.
	} else if err != nil {
		return err
	}
	var status unix.WaitStatus
	if err := unix.PtraceInterrupt(tid); err != nil {
		return err
	}
	if _, err := unix.Wait4(tid, &status, unix.WALL, nil); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE); err != nil {
		return err
	}
	return unix.PtraceSyscall(tid, 0)
}

// isTraced reports whether somebody traces a thread.
func isTraced(tid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	return err == nil && !strings.Contains(string(text), "\nTracerPid:\t0\n")
}

// resume counts a call that begins, and lets a thread go on to the next, with the signal that it was stopped by.
func (tr *tracer) resume(tid int, status unix.WaitStatus) {
	sig := status.StopSignal()
	switch {
	case sig == unix.SIGTRAP|0x80:
		tr.count(tid)
		sig = 0
	case status>>16 != 0:
		sig = 0 // A thread was made, or begins.
	}
	_ = unix.PtraceSyscall(tid, int(sig)) // It may have been killed.
}

// begun is what the kernel reports a call that begins: the start of struct ptrace_syscall_info.
type begun struct {
	op   uint8
	_    [23]byte
	call uint64
	args [6]uint64
	_    [8]byte
}

func (tr *tracer) count(tid int) {
	var b begun
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(b),
		uintptr(unsafe.Pointer(&b)), 0, 0)
	if errno != 0 || b.op != unix.PTRACE_SYSCALL_INFO_ENTRY || slices.Contains(machinery(), b.call) {
		return
	}
	switch b.call {
	case unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FCNTL: // Files share them with sockets.
		if !tr.isFile(b.args[0]) {
			return
		}
	case unix.SYS_EPOLL_CTL:
		if !tr.isFile(b.args[2]) {
			return
		}
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.all[nameOf(b.call)]++
}

// isFile leaves out sockets, the log, the mount table, which is as long as the machine has mounts, the limits of control groups,
// which Go looks up now and then, and that by which Go wakes the thread that waits for all sockets.
func (tr *tracer) isFile(fd uint64) bool {
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tr.pid, fd))
	return err == nil && fd > 2 && !strings.HasPrefix(to, "socket:") && !strings.HasPrefix(to, "/proc/") &&
		!strings.HasPrefix(to, "/sys/") && to != "anon_inode:[eventfd]"
}

// machinery are the calls by which Go has goroutines run and memory: how many is chance.
func machinery() []uint64 {
	return []uint64{
		unix.SYS_FUTEX, unix.SYS_EPOLL_PWAIT, unix.SYS_NANOSLEEP, unix.SYS_SCHED_YIELD, unix.SYS_TGKILL, unix.SYS_GETPID, unix.SYS_GETTID,
		unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_SIGALTSTACK, unix.SYS_MADVISE, unix.SYS_MMAP, unix.SYS_MUNMAP,
		unix.SYS_CLONE, unix.SYS_SCHED_GETAFFINITY, unix.SYS_RESTART_SYSCALL, unix.SYS_PRCTL, unix.SYS_EXIT,
	}
}

// nameOf returns the name of a call that the driver is known to make.
func nameOf(call uint64) string {
	names := map[uint64]string{
		unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_CLOSE: "close", unix.SYS_FCNTL: "fcntl", unix.SYS_EPOLL_CTL: "epoll_ctl",
		unix.SYS_OPENAT: "openat", unix.SYS_OPENAT2: "openat2", unix.SYS_FSTAT: "fstat",
		unix.SYS_STATX: "statx", unix.SYS_FSTATFS: "fstatfs", unix.SYS_GETDENTS64: "getdents64", unix.SYS_READLINKAT: "readlinkat",
		unix.SYS_MKDIRAT: "mkdirat", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RENAMEAT: "renameat", unix.SYS_SYMLINKAT: "symlinkat",
		unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHMODAT: "fchmodat", unix.SYS_FCHOWN: "fchown", unix.SYS_FCHOWNAT: "fchownat",
		unix.SYS_OPEN_TREE: "open_tree", unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_MOUNT_SETATTR: "mount_setattr",
		unix.SYS_FSOPEN: "fsopen", unix.SYS_FSCONFIG: "fsconfig", unix.SYS_FSMOUNT: "fsmount", unix.SYS_UMOUNT2: "umount2",
		unix.SYS_FSYNC: "fsync", unix.SYS_LSEEK: "lseek", unix.SYS_FCHMODAT2: "fchmodat2", unix.SYS_RENAMEAT2: "renameat2",
	}
	if name, ok := names[call]; ok {
		return name
	}
	return fmt.Sprint("call ", call)
}

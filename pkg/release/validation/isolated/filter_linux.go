//go:build linux && (amd64 || arm64) && !race

package isolated

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed returns the system calls of Go's runtime, and of C's where a build has that, and those
// that read the edit and write the problems. There is no file but the standard ones.
func allowed() []uint32 {
	return []uint32{
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT, unix.SYS_PREAD64,
		// Memory.
		unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK,
		// Threads, and the end.
		unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
		unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
		// Signals.
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
		// Time, and what wakes the runtime.
		unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
		unix.SYS_GETRANDOM,
	}
}

// Where the kernel puts what a filter looks at, in struct seccomp_data: of each argument the lower
// half, on little-endian machines.
const (
	offsetCall  = 0
	offsetArch  = 4
	offsetFirst = 16
)

// The verdicts. A call that is refused fails with EPERM.
const (
	pass   = unix.SECCOMP_RET_ALLOW
	end    = unix.SECCOMP_RET_KILL_PROCESS
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	lack   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// program returns the filter for a process.
func program(pid int) []unix.SockFilter {
	code := []unix.SockFilter{
		// The same number is another call for another kind of program.
		load(offsetArch), skip(arch, 1, 0), verdict(end),
		load(offsetCall),
	}
	for _, call := range allowed() {
		code = append(code, skip(call, 0, 1), verdict(pass))
	}
	return append(code,
		// The flags of clone3 are out of a filter's sight. Without it, programs use clone.
		skip(unix.SYS_CLONE3, 0, 1), verdict(lack),
		// Threads of this process are made, and are woken by a signal. Other processes are not.
		skip(unix.SYS_CLONE, 0, 4), load(offsetFirst),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 0, Jf: 1}, verdict(pass),
		verdict(refuse),
		skip(unix.SYS_TGKILL, 0, 3), load(offsetFirst), skip(uint32(pid), 0, 1), verdict(pass), //nolint:gosec // Positive.
		verdict(refuse),
	)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// skip skips the next instructions: so many if the value is equal, and else the other number.
func skip(value uint32, equal, other uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: equal, Jf: other}
}

func verdict(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// filterCalls puts all threads under the filter. It needs no privilege, as no privilege can be
// gained from then on.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl no_new_privs", err)
	}
	code := program(os.Getpid())
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]} //nolint:gosec // Some hundred.
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog))) //nolint:gosec // As seccomp(2) wants it.
	switch {
	case errno != 0:
		return os.NewSyscallError("seccomp", errno)
	case thread != 0:
		return fmt.Errorf("thread %d is under another filter than this one", thread)
	}
	return nil
}

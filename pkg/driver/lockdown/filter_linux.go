package lockdown

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The verdicts of the filter.
const (
	pass   = unix.SECCOMP_RET_ALLOW
	end    = unix.SECCOMP_RET_KILL_PROCESS
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// lack means that the kernel is too old for the call, so that the caller makes an older one
	// instead.
	lack = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// fatal returns the calls that end the process: the driver executes nothing, so only an attacker
// makes them.
func fatal() []uint32 { return []uint32{unix.SYS_EXECVE, unix.SYS_EXECVEAT} }

// refused returns the calls that fail with EPERM. The driver makes none of them; the capabilities
// that it has to keep would allow most, or they have been the way into the kernel before.
func refused() []uint32 {
	return slices.Concat([]uint32{
		// Other processes.
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
		// Code in the kernel, and large or subtle parts of it.
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
		unix.SYS_KEXEC_FILE_LOAD, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP,
		unix.SYS_PERSONALITY,
		// Namespaces, and other views of the file system. Mounts are made by newer calls.
		unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_FSPICK,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
		// Keys.
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		// The node.
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
		unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	}, refusedHere())
}

// Where the kernel puts what a filter looks at, in struct seccomp_data. The flags of clone are its
// first argument, of which the first half is enough on little-endian machines.
const (
	offsetCall  = 0
	offsetArch  = 4
	offsetFlags = 16
)

// namespaces are the flags of clone that make one.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// program returns the filter. All that it passes is passed whatever the arguments, but for clone,
// so that the kernel can remember the verdict by number and need not run the filter.
func program() []unix.SockFilter {
	code := []unix.SockFilter{
		// The same number is another call for another kind of program, which this machine may run
		// as well.
		load(offsetArch), jump(unix.BPF_JEQ, arch, 1, 0), verdict(end),
		load(offsetCall), jump(unix.BPF_JGE, firstForeign, 0, 1), verdict(end),
	}
	for _, call := range fatal() {
		code = append(code, jump(unix.BPF_JEQ, call, 0, 1), verdict(end))
	}
	for _, call := range refused() {
		code = append(code, jump(unix.BPF_JEQ, call, 0, 1), verdict(refuse))
	}
	return append(code,
		// The flags of clone3 are out of a filter's sight. Without it, programs use clone.
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), verdict(lack),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 1, 0), verdict(pass),
		// Threads, yes. Processes and namespaces, no.
		load(offsetFlags),
		jump(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0), verdict(refuse),
		jump(unix.BPF_JSET, namespaces, 0, 1), verdict(refuse),
		verdict(pass),
	)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// jump skips the next yes or no instructions.
func jump(kind uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | kind | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func verdict(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// install puts all threads of the process under the filter, and under the calling thread's
// no_new_privs.
func install(code []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]} //nolint:gosec // Some hundred.
	// Older kernels otherwise slow down a process with a filter, to guard it from the code it runs.
	// The driver runs its own code only.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&prog))) //nolint:gosec // As seccomp(2) wants it.
	switch {
	case errno != 0:
		return os.NewSyscallError("seccomp", errno)
	case thread != 0:
		return fmt.Errorf("thread %d is under another filter than this one", thread)
	}
	return nil
}

package killpoint

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// changing are the system calls by which a Go program changes files, directories and mounts. openat is one only when it
// may create a file.
var changing = map[uintptr]string{
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FALLOCATE: "fallocate",
	unix.SYS_FSYNC: "fsync", unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHMODAT: "fchmodat", unix.SYS_FCHMODAT2: "fchmodat2",
	unix.SYS_FCHOWN: "fchown", unix.SYS_FCHOWNAT: "fchownat", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_SYMLINKAT: "symlinkat",
	unix.SYS_LINKAT: "linkat", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_OPENAT: "openat", unix.SYS_FSOPEN: "fsopen", unix.SYS_FSCONFIG: "fsconfig", unix.SYS_FSMOUNT: "fsmount",
	unix.SYS_OPEN_TREE: "open_tree", unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_MOUNT_SETATTR: "mount_setattr",
	unix.SYS_UMOUNT2: "umount2", unix.SYS_MOUNT: "mount",
}

// writes change a file only if their descriptor is one.
var writes = []uintptr{unix.SYS_WRITE, unix.SYS_PWRITE64}

func nameOf(call uintptr) string { return changing[call] }

// Exec replaces the running program by another one that cannot change a file system without the killer's leave. The wire
// listens at socket. It returns only an error.
func Exec(socket, path string, args []string) error {
	runtime.LockOSThread() // The filter is for this thread, and what it executes.
	wire, err := dial(socket)
	if err != nil {
		return fmt.Errorf("reach the kill point: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	listener, err := install(filter())
	if err != nil {
		return fmt.Errorf("install the filter: %w", err)
	}
	if err := unix.Sendmsg(wire, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	return os.NewSyscallError("execve", unix.Exec(path, append([]string{path}, args...), os.Environ()))
}

func dial(socket string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, os.NewSyscallError("connect", unix.Connect(fd, &unix.SockaddrUnix{Name: socket}))
}

// Where the kernel puts what a filter looks at, in struct seccomp_data. The flags of openat are its third argument, of
// which the first half is enough on the little-endian machines that this runs on.
const (
	offsetCall  = 0
	offsetFlags = 16 + 2*8
)

// filter asks about the calls of changing and lets all others pass.
func filter() []unix.SockFilter {
	calls := slices.Sorted(maps.Keys(changing))
	calls = slices.DeleteFunc(calls, func(call uintptr) bool { return call == unix.SYS_OPENAT })
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(kind uint16, k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | kind | unix.BPF_K, Jt: uint8(yes), Jf: uint8(no), K: k} //nolint:gosec // Short.
	}
	verdict := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}

	code := []unix.SockFilter{load(offsetCall)}
	for i, call := range calls {
		code = append(code, jump(unix.BPF_JEQ, uint32(call), len(calls)-i+3, 0)) //nolint:gosec // A small number; to ask.
	}
	return append(code,
		jump(unix.BPF_JEQ, unix.SYS_OPENAT, 1, 0),
		verdict(unix.SECCOMP_RET_ALLOW),
		load(offsetFlags),
		jump(unix.BPF_JSET, unix.O_CREAT, 0, 1),
		verdict(unix.SECCOMP_RET_USER_NOTIF),
		verdict(unix.SECCOMP_RET_ALLOW),
	)
}

// install returns the descriptor that questions come through.
func install(code []unix.SockFilter) (listener int, err error) {
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]} //nolint:gosec // Short.
	// A thread that waits for an answer is not to be disturbed by the signals that Go's scheduler sends: it would ask again.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&program))) //nolint:gosec // As seccomp(2) wants it.
	if errno != 0 {
		return -1, os.NewSyscallError("seccomp", errno)
	}
	return int(fd), nil
}

// question is struct seccomp_notif, flattened.
type question struct {
	id   uint64
	call uintptr
	args [6]uint64
}

type notification struct {
	id         uint64
	pid, flags uint32
	call       int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type answer struct {
	id         uint64
	val        int64
	err, flags int32
}

var errEnded = errors.New("the program has ended")

// next waits for the next question.
func next(listener int) (question, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}} //nolint:gosec // A descriptor.
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return question{}, os.NewSyscallError("poll", err)
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			return question{}, errEnded
		}
		var n notification
		err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) //nolint:gosec // As ioctl(2) wants it.
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // The caller is gone, or calls again.
			continue
		case err != nil:
			return question{}, err
		}
		return question{id: n.id, call: uintptr(n.call), args: n.args}, nil //nolint:gosec // A small number.
	}
}

// allow lets the kernel make the call. The caller may have been killed meanwhile.
func allow(listener int, q question) error {
	a := answer{id: q.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) //nolint:gosec // As ioctl(2) wants it.
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}

package lockdown

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capabilities is a set: bit n is the capability with number n.
type capabilities uint64

// needed is what the driver cannot do without. For each there is a test that fails without it.
const needed capabilities = 0 |
	1<<unix.CAP_SYS_ADMIN | // Mounts: to make, to move, to clone, to change and to remove them.
	1<<unix.CAP_CHOWN | // Files belong to the volume's uid and gid.
	1<<unix.CAP_DAC_OVERRIDE | // To write into their directories, and into files that nobody may write.
	1<<unix.CAP_FOWNER | // To set their modes.
	1<<unix.CAP_FSETID // To set the setgid bit of directories whose group the driver is not in.

// cut takes all capabilities but those to keep from every set of every thread. It returns ENOTSUP,
// and has done nothing, in a binary that is linked with C code: capabilities belong to threads, and
// Go does not know all.
func cut(keep capabilities) error {
	if err := onAllThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); err != nil {
		return fmt.Errorf("clear the ambient set: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // Of capabilities 0 to 31, and of 32 to 63.
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	// Without CAP_SETPCAP the bounding set cannot be cut. It limits what programs get that are
	// executed: none are.
	if sets[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		if err := bound(keep); err != nil {
			return err
		}
	}
	for i, half := range []capabilities{keep & (1<<32 - 1), keep >> 32} {
		sets[i].Permitted &= uint32(half) //nolint:gosec // Half a set has 32 bits.
		sets[i].Effective, sets[i].Inheritable = sets[i].Permitted, 0
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])), 0) //nolint:gosec // As capset(2) wants it.
	if errno != 0 {
		return os.NewSyscallError("capset", errno)
	}
	return nil
}

// bound limits the bounding set to what to keep. The kernel may know more capabilities than this
// program.
func bound(keep capabilities) error {
	for c := range 64 {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		switch {
		case errors.Is(err, unix.EINVAL): // There are no more.
			return nil
		case err != nil:
			return os.NewSyscallError("prctl capbset_read", err)
		case has == 0 || keep&(1<<c) != 0:
			continue
		}
		if err := onAllThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); err != nil {
			return fmt.Errorf("take capability %d from the bounding set: %w", c, err)
		}
	}
	return nil
}

// onAllThreads makes a system call whose arguments are numbers. Those beyond the third are zero.
func onAllThreads(call, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall6(call, a1, a2, a3, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

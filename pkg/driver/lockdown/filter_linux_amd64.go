package lockdown

import "golang.org/x/sys/unix"

const (
	arch = unix.AUDIT_ARCH_X86_64
	// firstForeign and all above are the calls of x32 programs.
	firstForeign = 0x4000_0000
)

// refusedHere returns the calls that only this architecture has. Processes are made by clone
// elsewhere.
func refusedHere() []uint32 {
	return []uint32{unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT}
}

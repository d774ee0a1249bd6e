package lockdown_test

import "golang.org/x/sys/unix"

// foreignCalls returns calls of another kind of programs that this machine may run.
func foreignCalls() map[string]uintptr {
	return map[string]uintptr{
		"a call as x32 programs make it ends the process":        0x4000_0000 + unix.SYS_GETPID,
		"execve as x32 programs make it ends the process":        0x4000_0000 + 520,
		"a call far beyond what the kernel has ends the process": 0xffff_ffff,
	}
}

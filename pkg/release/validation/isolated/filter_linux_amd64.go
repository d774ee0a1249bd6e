//go:build linux && amd64 && !race

package isolated

import "golang.org/x/sys/unix"

// arch is the only kind of program that the filter knows. Calls of x32 programs have numbers that
// are not among the allowed ones.
const arch = unix.AUDIT_ARCH_X86_64

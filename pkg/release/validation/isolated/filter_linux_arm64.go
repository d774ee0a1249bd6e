//go:build linux && arm64 && !race

package isolated

import "golang.org/x/sys/unix"

// arch is the only kind of program that the filter knows.
const arch = unix.AUDIT_ARCH_AARCH64

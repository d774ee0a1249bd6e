package lockdown

import (
	"math"

	"golang.org/x/sys/unix"
)

const (
	arch = unix.AUDIT_ARCH_AARCH64
	// firstForeign is beyond all calls: no other programs share the numbers and the architecture.
	firstForeign = math.MaxUint32
)

// refusedHere returns the calls that only this architecture has.
func refusedHere() []uint32 { return nil }

// Package signals reads the names of signals, as images and pods write them.
package signals

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// numbered are the names of Linux' signals from 1 on. Containers run there, also where their pods
// are checked on another system.
const numbered = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP " +
	"TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"

// The first and the last real-time signal, as the names in images and pods count them.
const (
	rtMin = 34
	rtMax = 64
)

// Parse returns the signal of a name or number such as HUP, SIGHUP, 1, RTMIN+3 or RTMAX-1, and
// zero if there is none.
func Parse(text string) syscall.Signal {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	for number := 1; number <= rtMax; number++ {
		if slices.Contains(namesOf(number), name) {
			return syscall.Signal(number)
		}
	}
	return 0
}

func namesOf(number int) []string {
	names := []string{strconv.Itoa(number)}
	if all := strings.Fields(numbered); number <= len(all) {
		names = append(names, all[number-1])
	}
	if number >= rtMin {
		names = append(names, "RTMIN+"+strconv.Itoa(number-rtMin), "RTMAX-"+strconv.Itoa(rtMax-number))
	}
	switch number {
	case rtMin:
		names = append(names, "RTMIN")
	case rtMax:
		names = append(names, "RTMAX")
	}
	return names
}

// Package signals reads the names of signals, as images and pods write them.
package signals

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

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
	if name := unix.SignalName(syscall.Signal(number)); name != "" {
		names = append(names, strings.TrimPrefix(name, "SIG"))
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

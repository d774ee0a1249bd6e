// Package proc reads what the kernel counts of a process.
//
// It does not know what the process does.
package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Memory is what a process has in memory, in bytes.
type Memory struct {
	// Resident is all of it, the program's own pages included, which can be read again from the disk.
	Resident int64
	// Anonymous is what cannot: heaps and stacks.
	Anonymous int64
}

// MemoryOf returns what a process has in memory.
func MemoryOf(pid int) (Memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	all, err := kilobytes(string(status), "VmRSS")
	if err != nil {
		return Memory{}, err
	}
	anonymous, err := kilobytes(string(status), "RssAnon")
	return Memory{Resident: all, Anonymous: anonymous}, err
}

// kilobytes returns a value of a file in /proc as bytes.
func kilobytes(text, name string) (int64, error) {
	value, err := field(text, name)
	return value << 10, err
}

// field returns a number of a file in /proc.
func field(text, name string) (int64, error) {
	for l := range strings.Lines(text) {
		key, value, ok := strings.Cut(l, ":")
		if !ok || key != name {
			continue
		}
		words := strings.Fields(value)
		if len(words) == 0 {
			break
		}
		return strconv.ParseInt(words[0], 10, 64)
	}
	return 0, fmt.Errorf("the kernel does not tell %s", name)
}

// Work is what a process has done since it started.
type Work struct {
	// CPU is processor time, that of threads that have ended included.
	CPU time.Duration
	// WakeUps are how often one of its threads has waited for something, and gone on. Those of threads that have ended are
	// not counted.
	WakeUps int64
}

// Since returns what was done after an earlier moment.
func (w Work) Since(before Work) Work {
	return Work{CPU: w.CPU - before.CPU, WakeUps: w.WakeUps - before.WakeUps}
}

// WorkOf returns what a process has done.
func WorkOf(pid int) (Work, error) {
	var clock unix.Timespec
	if err := unix.ClockGettime(clockOf(pid), &clock); err != nil {
		return Work{}, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	work := Work{CPU: time.Duration(clock.Nano())}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return Work{}, err
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended meanwhile.
		}
		switches, err := field(string(status), "voluntary_ctxt_switches")
		if err != nil {
			return Work{}, err
		}
		work.WakeUps += switches
	}
	return work, nil
}

// clockOf is what the kernel knows the clock of a process's processor time by, as clock_getcpuclockid(3) returns it: exact,
// where the times in /proc are in steps of 10 ms.
func clockOf(pid int) int32 {
	const scheduled = 2
	return int32(^pid<<3 | scheduled) //nolint:gosec // The kernel's process IDs have 22 bits at most.
}

// Package proc reads what the kernel counts of a process.
//
// It does not know what the process does.
package proc

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
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
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Memory{}, err
	}
	status, err := process.NewStatus()
	return Memory{Resident: int64(status.VmRSS), Anonymous: int64(status.RssAnon)}, err //nolint:gosec // Of a machine's memory.
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
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return Work{}, err
	}
	for _, thread := range threads {
		if status, err := thread.NewStatus(); err == nil { // Else it has ended meanwhile.
			work.WakeUps += int64(status.VoluntaryCtxtSwitches) //nolint:gosec // Not that many.
		}
	}
	return work, nil
}

// clockOf is what the kernel knows the clock of a process's processor time by, as clock_getcpuclockid(3) returns it: exact,
// where the times in /proc are in steps of 10 ms.
func clockOf(pid int) int32 {
	const scheduled = 2
	return int32(^pid<<3 | scheduled) //nolint:gosec // The kernel's process IDs have 22 bits at most.
}

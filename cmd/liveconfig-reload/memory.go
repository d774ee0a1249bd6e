package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// giveMemoryBack gives the kernel back what a reload has needed: garbage, and the pages of this
// program's own file. The kernel maps those again when they are used, from its cache.
//
// Most of this program's code runs at the start or during a reload alone. Without this, it would
// stay in memory for as long as the pod lives.
func giveMemoryBack() {
	debug.FreeOSMemory()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return // It only costs memory.
	}
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for line := range bytes.Lines(maps) {
		if from, length, found := readOnly(line, own); found {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, length, unix.MADV_DONTNEED) // Likewise.
		}
	}
}

// readOnly returns which memory a line of /proc/PID/maps is about, and whether it shows a file that
// this process cannot have changed there.
func readOnly(line []byte, file string) (from, length uintptr, found bool) {
	const minimum = 6 // Addresses, rights, offset, device, inode and file.
	fields := bytes.Fields(line)
	if len(fields) < minimum || string(fields[5]) != file || bytes.ContainsRune(fields[1], 'w') {
		return 0, 0, false
	}
	first, last, _ := bytes.Cut(fields[0], []byte("-"))
	start, errStart := strconv.ParseUint(string(first), 16, 64)
	end, errEnd := strconv.ParseUint(string(last), 16, 64)
	if errStart != nil || errEnd != nil || start >= end {
		return 0, 0, false
	}
	return uintptr(start), uintptr(end - start), true
}

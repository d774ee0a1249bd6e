//go:build !linux || race || (!amd64 && !arm64)

package isolated

import (
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// dieTogether does nothing: only Linux can.
func dieTogether(*exec.Cmd) {}

// confine limits the memory of the heap as well as the process itself can. That is for people who
// check their own edits on other systems, where the plugin runs, and for the race detector, which
// needs more memory and more system calls than a check has.
func confine() error {
	debug.SetMemoryLimit(mostMemory)
	go watchMemory()
	return nil
}

// exitMemory is the exit code of a process that took too much memory.
const exitMemory = 77

// watchMemory ends the process when it takes too much.
func watchMemory() {
	const interval = 2 * time.Millisecond
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for range time.Tick(interval) {
		metrics.Read(sample)
		if sample[0].Value.Uint64() > mostMemory {
			os.Exit(exitMemory) //nolint:forbidigo // The process exists for this.
		}
	}
}

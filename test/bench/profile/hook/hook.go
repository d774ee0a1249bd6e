//go:build liveconfig_profiled

// This file is not a part of the driver, which has no way to be profiled. The benchmark lays it over the driver's source when it
// builds a driver for itself, whose profiles it takes.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"

	"golang.org/x/sys/unix"
)

// init is the one way into a program that does not know of this file.
func init() { go takeProfiles(os.Getenv("LIVECONFIG_PROFILES")) }

// takeProfiles begins or ends a profile of the processor with each SIGUSR1, and looks at the memory with each SIGUSR2. A file
// is complete when it has its name. What goes wrong ends the program, and the benchmark with it.
func takeProfiles(dir string) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGUSR1, unix.SIGUSR2)
	var cpu *os.File
	for s := range told {
		switch {
		case s == unix.SIGUSR2:
			lookAtMemory(dir)
		case cpu == nil:
			cpu = create(dir, "cpu")
			orPanic(pprof.StartCPUProfile(cpu))
		default:
			pprof.StopCPUProfile()
			complete(cpu)
			cpu = nil
		}
	}
}

func lookAtMemory(dir string) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	stats := create(dir, "stats")
	for _, s := range []struct {
		name  string
		value uint64
	}{
		{"objects in the heap, live", m.HeapAlloc},
		{"spans of the heap in use", m.HeapInuse},
		{"spans of the heap not in use", m.HeapIdle},
		{"of those given back to the kernel", m.HeapReleased},
		{"stacks", m.StackInuse},
		{"the runtime's accounts of spans and caches", m.MSpanSys + m.MCacheSys},
		{"the garbage collector's", m.GCSys},
		{"this profile's", m.BuckHashSys},
		{"others of the runtime", m.OtherSys},
	} {
		_, err := fmt.Fprintf(stats, "%10d KiB  %s\n", s.value>>10, s.name)
		orPanic(err)
	}
	complete(stats)
	goroutines := create(dir, "goroutines")
	orPanic(pprof.Lookup("goroutine").WriteTo(goroutines, 0))
	complete(goroutines)
	heap := create(dir, "heap")
	orPanic(pprof.WriteHeapProfile(heap))
	complete(heap)
}

func create(dir, name string) *os.File {
	f, err := os.Create(filepath.Join(dir, name+".part"))
	orPanic(err)
	return f
}

func complete(f *os.File) {
	orPanic(f.Close())
	orPanic(os.Rename(f.Name(), f.Name()[:len(f.Name())-len(".part")]))
}

func orPanic(err error) {
	if err != nil {
		panic(err)
	}
}

package proc

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOfThisProcess looks at the kernel's own files.
func TestOfThisProcess(t *testing.T) {
	t.Parallel()
	memory, err := MemoryOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if memory.Anonymous < 100<<10 || memory.Resident < memory.Anonymous {
		t.Errorf("memory = %+v, want more than 100 KiB, and no more anonymous than there is", memory)
	}
	before, err := WorkOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var own unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own); err != nil {
		t.Fatal(err)
	}
	after, err := WorkOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if now := time.Duration(own.Nano()); before.CPU > now || now > after.CPU {
		t.Errorf("processor time is %s, and then %s, want this process's %s between them", before.CPU, after.CPU, now)
	}
	if work := after.Since(before); work.CPU <= 0 || before.WakeUps == 0 {
		t.Errorf("work = %+v after %+v, want some", work, before)
	}
}

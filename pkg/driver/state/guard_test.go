package state_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// TestGuardSystemCallsOfARecord shows that a record is on the disk before it gets its name, and the
// name before the publish goes on.
func TestGuardSystemCallsOfARecord(t *testing.T) {
	t.Parallel()
	if dir, ok := os.LookupEnv(dirVariable); ok {
		putTraced(t, dir)
		return
	}
	want := []string{"openat", "write", "fsync", "close", "renameat", "openat", "fsync", "close"}
	if diff := gocmp.Diff(want, traceOfPut(t)); diff != "" {
		t.Errorf("the system calls of a record (-want +got):\n%s", diff)
	}
}

// dirVariable names the state directory of the program that is traced.
const dirVariable = "LIVECONFIG_STATE_GUARD_DIR"

// mark is a call that Go does not make by itself, before and after those that are counted.
const mark = unix.SYS_GETPPID

// putTraced prints the number of its thread, waits until the thread is traced, and puts a record.
func putTraced(t *testing.T, dir string) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := open(t, dir)
	if _, err := fmt.Fprintln(os.Stdout, unix.Gettid()); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(os.Stdin).ReadByte(); err != nil {
		t.Fatal(err)
	}
	unix.Getppid()
	err := s.Put(record("v"))
	unix.Getppid()
	expect.NoError(t, err)
}

// traceOfPut returns the system calls on files by which another program puts a record.
func traceOfPut(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestGuardSystemCallsOfARecord$")
	// A signal that has a goroutine give way would have a call made twice.
	cmd.Env = append(os.Environ(), dirVariable+"="+t.TempDir(), "GODEBUG=asyncpreemptoff=1", "GOGC=off")
	cmd.Stderr = t.Output()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	expect.NoError(t, errors.Join(inErr, outErr, cmd.Start()))
	runtime.LockOSThread() // Only the thread that traces may ask.
	defer runtime.UnlockOSThread()
	trace, err := traceThread(bufio.NewReader(out), in)
	if err != nil {
		t.Error(err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
	return trace
}

// traceThread traces the thread that the program names, and has it go on.
func traceThread(out io.Reader, in io.Writer) (trace []string, err error) {
	var tid int
	if _, err := fmt.Fscan(out, &tid); err != nil {
		return nil, fmt.Errorf("read which thread to trace: %w", err)
	}
	if err := hold(tid); err != nil {
		return nil, fmt.Errorf("trace thread %d (is /proc/sys/kernel/yama/ptrace_scope 3, or ptrace forbidden?): %w", tid, err)
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		return nil, err
	}
	for marks := 0; ; {
		call, err := nextCall(tid)
		switch {
		case err != nil:
			return nil, err
		case call == mark:
			marks++
		case marks == 1 && fileCalls()[call] != "":
			trace = append(trace, fileCalls()[call])
		}
		if marks == 2 {
			return trace, unix.PtraceDetach(tid)
		}
	}
}

func hold(tid int) error {
	if err := unix.PtraceSeize(tid); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(tid, &status, unix.WALL, nil); err != nil {
		return err
	}
	return unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD)
}

// nextCall lets a thread that stands still go on until it begins a system call.
func nextCall(tid int) (uint64, error) {
	for sig := 0; ; {
		if err := unix.PtraceSyscall(tid, sig); err != nil {
			return 0, err
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(tid, &status, unix.WALL, nil); err != nil {
			return 0, err
		}
		if !status.Stopped() {
			return 0, errors.New("the program has ended")
		}
		sig = 0
		if status.StopSignal() != unix.SIGTRAP|0x80 {
			sig = int(status.StopSignal())
			continue
		}
		if call, begins, err := callOf(tid); begins || err != nil {
			return call, err
		}
	}
}

// callOf returns the call that a thread begins, if it does not end one.
func callOf(tid int) (call uint64, begins bool, err error) {
	var info struct { // The start of the kernel's struct ptrace_syscall_info.
		op   uint8
		_    [23]byte
		call uint64
		_    [56]byte
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info),
		uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return 0, false, errno
	}
	return info.call, info.op == unix.PTRACE_SYSCALL_INFO_ENTRY, nil
}

// fileCalls names the system calls that change files or make them durable. Go makes others as well, to
// schedule goroutines and to find out whether it can poll a file.
func fileCalls() map[uint64]string {
	return map[uint64]string{
		unix.SYS_OPENAT: "openat", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite", unix.SYS_FTRUNCATE: "ftruncate",
		unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_CLOSE: "close", unix.SYS_RENAMEAT: "renameat",
		unix.SYS_RENAMEAT2: "renameat2", unix.SYS_LINKAT: "linkat", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_MKDIRAT: "mkdirat",
	}
}

package volumefs_test

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

func TestCheckNeedsTheRightToMount(t *testing.T) {
	t.Parallel()
	err := checkAs(t, dropSysAdmin)
	checkError(t, err, "check that volumes can be made: ",
		"operation not permitted: CAP_SYS_ADMIN is missing (run the container privileged), or a seccomp profile forbids the call")
}

// checkAs calls Check on a separate thread that has done something to itself before.
func checkAs(t *testing.T, prepare func() error) error {
	t.Helper()
	errs, f := make(chan error), volumefs.New(volumefs.Config{Root: t.TempDir(), Source: source})
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread ends with what was done to it.
		if err := prepare(); err != nil {
			errs <- err
			return
		}
		errs <- f.Check()
	}()
	return <-errs
}

// TestCheckOfAnOldKernel has each call missing that the oldest kernel of all does not have, or forbidden by the runtime of
// the container.
func TestCheckOfAnOldKernel(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]uint32{
		"openat2": unix.SYS_OPENAT2, "fsopen tmpfs": unix.SYS_FSOPEN, "fsmount": unix.SYS_FSMOUNT,
		"mount_setattr": unix.SYS_MOUNT_SETATTR,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkAs(t, func() error { return refuseCall(call, unix.ENOSYS) })
			checkError(t, err, "check that volumes can be made: "+name+": function not implemented: ",
				": Linux 5.12 or newer is required, this is ")
			err = checkAs(t, func() error { return refuseCall(call, unix.EPERM) })
			checkError(t, err, "check that volumes can be made: "+name+": operation not permitted: ",
				"or a seccomp profile forbids the call")
		})
	}
}

// refuseCall makes the kernel refuse one call of the thread.
func refuseCall(call uint32, errno unix.Errno) error {
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // The number of the call.
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// dropSysAdmin takes CAP_SYS_ADMIN from the thread.
func dropSysAdmin() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	return unix.Capset(&header, &sets[0])
}

// TestAnSELinuxContextThatTheKernelRefuses is left out after a check, and the reason is known.
func TestAnSELinuxContextThatTheKernelRefuses(t *testing.T) {
	t.Parallel()
	// With SELinux there is no such context, without it no such option.
	f := volumefs.New(volumefs.Config{Root: t.TempDir(), Source: source, SELinuxContext: "no such context"})
	_, err := f.Create(limits())
	checkError(t, err, "create volume: fsconfig tmpfs ", "invalid argument")
	expect.NoError(t, f.Check())
	reason := f.RefusedContext()
	checkError(t, reason, "fsconfig tmpfs ", "invalid argument")
	if reason != nil && !strings.Contains(reason.Error(), "context=no such context") && !strings.Contains(reason.Error(), "create") {
		t.Errorf("reason = %v, want it to name the option", reason)
	}
	v, err := f.Create(limits())
	expect.NoError(t, err)
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if f := volumefs.New(volumefs.Config{Root: t.TempDir(), Source: source}); f.Check() != nil || f.RefusedContext() != nil {
		t.Errorf("RefusedContext = %v without a context, want none", f.RefusedContext())
	}
}

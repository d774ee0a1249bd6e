package volumefs_test

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/volumefs"
)

func TestCheckNeedsTheRightToMount(t *testing.T) {
	t.Parallel()
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread ends with its lesser rights.
		if err := dropSysAdmin(); err != nil {
			errs <- err
			return
		}
		errs <- volumefs.New(volumefs.Config{Source: source}).Check()
	}()
	checkError(t, <-errs, "check that volumes can be made: ",
		"operation not permitted: CAP_SYS_ADMIN is missing (run the container privileged), or a seccomp profile forbids the call")
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

func TestAnSELinuxContextThatTheKernelRefuses(t *testing.T) {
	t.Parallel()
	// With SELinux there is no such context, without it no such option.
	f := volumefs.New(volumefs.Config{Source: source, SELinuxContext: "no such context"})
	err := f.Check()
	checkError(t, err, "check that volumes can be made: fsconfig tmpfs ", "invalid argument")
	if err != nil && !strings.Contains(err.Error(), "context=no such context") && !strings.Contains(err.Error(), "create") {
		t.Errorf("error = %v, want it to name the option", err)
	}
	if v, err := f.Create(limits()); err == nil {
		_ = v.Close()
		t.Error("Create = nil error, want one")
	}
}

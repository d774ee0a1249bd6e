package volumefs_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVolumesStayOutOfSwapWhereTheKernelCan is rule 45: in a user namespace, and before Linux 6.4, it cannot.
func TestVolumesStayOutOfSwapWhereTheKernelCan(t *testing.T) {
	t.Parallel()
	_, target := published(t)
	lines := mountsBelow(t, target)
	if len(lines) != 1 {
		t.Fatalf("mounts at the target = %q, want one", lines)
	}
	_, super, _ := strings.Cut(strings.TrimSpace(lines[0]), " - ")
	got := slices.Contains(strings.Split(strings.Fields(super)[2], ","), "noswap")
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	must(t, err)
	defer unix.Close(fs)
	if want := unix.FsconfigSetFlag(fs, "noswap") == nil; got != want { // Does the kernel take the option?
		t.Errorf("file system = %q; noswap = %t, want %t", super, got, want)
	}
}

package main

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// hasTerminal waits until the command of a process has the terminal.
func hasTerminal(t *testing.T, p process, keyboard *os.File) {
	t.Helper()
	eventually(t, func() error {
		group, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPGRP)
		if err != nil || !slices.Contains(childrenOf(p.Process.Pid), group) {
			return fmt.Errorf("the terminal is that of group %d, %w", group, err)
		}
		return nil
	})
}

package supervise

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// terminal is that of this process. Keys that send signals send them to one group of processes,
// which is also the only one that may read: the command's. Nil is not a terminal, or one that
// belongs to others.
type terminal struct {
	file *os.File
	// own is the group that had the terminal before.
	own int
}

func findTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: file, own: unix.Getpgrp()}
	if group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP); err != nil || group != t.own {
		_ = file.Close()
		return nil
	}
	return t
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

// give gives the terminal to a group. A process of it that has tried to read before was stopped,
// and goes on.
func (t *terminal) give(group int) {
	if t == nil {
		return
	}
	t.set(group)
	_ = unix.Kill(-group, unix.SIGCONT)
}

// takeBack leaves things as they were.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	t.set(t.own)
	_ = t.file.Close() // It was only asked.
}

// set gives the terminal to a process group. The kernel stops a process that sets it without having
// it, unless the signal is blocked; to ignore the signal instead would be passed on to the command.
func (t *terminal) set(group int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var blocked, before unix.Sigset_t
	blocked.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before) != nil {
		return
	}
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) // Keys may not work as they should; the command does.
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
}

package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Target is a process of the pod that gets a signal: one of a name, or the one that a file has the
// number of.
type Target struct {
	// Name is that of the program, as /proc has it, or as the first word of its command line, with
	// or without the directory. Of several the oldest gets the signal.
	Name string
	// PIDFile is a file with the number of the process.
	PIDFile string
	// Proc is where the kernel shows processes: /proc.
	Proc string
}

// Signal sends a signal.
func (t Target) Signal(signal syscall.Signal) error {
	pid, err := t.find()
	if err != nil {
		return err
	}
	// A handle: the number may be that of another process a moment later.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return t.because(pid, err)
	}
	defer unix.Close(fd) //nolint:errcheck // There is nothing to lose.
	if again, err := t.find(); err != nil || again != pid {
		return fmt.Errorf("process %d (%s): %w: it has ended", pid, t, ErrNotUp)
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil {
		return t.because(pid, err)
	}
	return nil
}

// String names the target for people.
func (t Target) String() string {
	if t.PIDFile != "" {
		return t.PIDFile
	}
	return t.Name
}

func (t Target) because(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("process %d (%s): %w: it has ended", pid, t, ErrNotUp)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("process %d (%s): user %d may not send it a signal: run both containers as the same user", pid, t,
			os.Geteuid())
	}
	return fmt.Errorf("process %d (%s): %w", pid, t, err)
}

func (t Target) find() (int, error) {
	if t.PIDFile != "" {
		return t.read()
	}
	return t.oldest()
}

// read returns the number in the file. That of the first process of the pod is refused: it is
// nobody's program, unless somebody names it.
func (t Target) read() (int, error) {
	text, err := os.ReadFile(t.PIDFile)
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%w: there is no file %s", ErrNotUp, t.PIDFile)
	}
	if err != nil {
		return 0, err
	}
	const most = 20
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:min(len(text), most)])))
	switch {
	case err != nil || pid < 1:
		return 0, fmt.Errorf("%s has no number of a process", t.PIDFile)
	case pid == 1:
		return 0, fmt.Errorf("%s has process 1, which gets no signal unless --process names it", t.PIDFile)
	case pid == os.Getpid():
		return 0, fmt.Errorf("%s has the number of this process: share the processes of the pod (shareProcessNamespace)",
			t.PIDFile)
	}
	return pid, nil
}

// oldest returns the oldest process of the name.
func (t Target) oldest() (pid int, err error) {
	entries, err := os.ReadDir(t.Proc)
	if err != nil {
		return 0, err
	}
	var first uint64
	for _, entry := range entries {
		next, err := strconv.Atoi(entry.Name())
		if err != nil || next == os.Getpid() || !t.isNamed(next) {
			continue
		}
		started, isAlive := t.started(next)
		if isAlive && (pid == 0 || started < first || started == first && next < pid) {
			pid, first = next, started
		}
	}
	if pid == 0 {
		return 0, fmt.Errorf("%w: no process is called %s; is shareProcessNamespace set in the pod?", ErrNotUp, t.Name)
	}
	return pid, nil
}

// isNamed compares the name with that of the kernel, which has 15 bytes at most, and with the
// command line.
func (t Target) isNamed(pid int) bool {
	const mostName = 15
	dir := filepath.Join(t.Proc, strconv.Itoa(pid))
	if name, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil && len(t.Name) <= mostName &&
		strings.TrimSuffix(string(name), "\n") == t.Name {
		return true
	}
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return false
	}
	program, _, _ := strings.Cut(string(line), "\x00")
	return program == t.Name || filepath.Base(program) == t.Name
}

// started returns when a process began, in ticks, and whether it still runs.
func (t Target) started(pid int) (ticks uint64, isAlive bool) {
	stat, err := os.ReadFile(filepath.Join(t.Proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(stat[max(bytes.LastIndexByte(stat, ')'), 0):]), " ")
	fields := strings.Fields(rest)
	const state, startTime = 0, 19 // Counted after the name.
	if len(fields) <= startTime || fields[state] == "Z" || fields[state] == "X" {
		return 0, false
	}
	ticks, err = strconv.ParseUint(fields[startTime], 10, 64)
	return ticks, err == nil
}

// Run runs a command. Its output is thrown away: it may have parts of files.
func Run(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // That is what the user asks for.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	switch ended, isExit := errors.AsType[*exec.ExitError](err); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: it did not end in time", command[0])
	case isExit:
		return fmt.Errorf("%s: %s", command[0], ended.ProcessState)
	}
	return err
}

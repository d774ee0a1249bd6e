package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/install"
)

// endTimeout is how long a command may take to end after a signal.
const endTimeout = 5 * time.Second

const (
	greeting = `
This is a cluster of one node with the driver and the rollout controller. Try:

  kubectl apply -f examples/short-form/
  kubectl wait --for=condition=Ready pod/web --timeout=2m
  kubectl exec web -- curl --silent http://localhost:8080/
  kubectl liveconfig status pod/web
  examples/rollout/walk-through.sh

examples/README.md has more. The logs of all programs are in %s.
Type exit, or Ctrl-D, to remove the cluster.
`
	// startFile is read by an interactive shell. kubectl's completion needs the functions of the
	// package bash-completion.
	startFile = `PS1='(liveconfig) \w$ '
if [[ -r /usr/share/bash-completion/bash_completion ]]; then
	. /usr/share/bash-completion/bash_completion
	. <(kubectl completion bash)
	mkdir ~/bin
	kubectl liveconfig completion kubectl >~/bin/kubectl_complete-liveconfig
	chmod +x ~/bin/kubectl_complete-liveconfig
	PATH+=:~/bin
fi
`
)

// shell runs the commands of a person or a script in the cluster.
type shell struct {
	site     *install.Installation
	command  string
	terminal *terminal // Nil: stdin is not a terminal, or a command runs.
}

func newShell(s *install.Installation, command string) *shell {
	sh := &shell{site: s, command: command}
	if command == "" {
		sh.terminal = terminalOf(os.Stdin)
	}
	return sh
}

// run returns the exit status when the shell has ended.
func (s *shell) run(ctx context.Context, env []string) (int, error) {
	args, err := s.args()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "bash", args...)
	cmd.Dir, cmd.Env = s.site.Repo(), env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.WaitDelay = endTimeout
	cmd.Cancel = func() error {
		if ended, ok := errors.AsType[*signalError](context.Cause(ctx)); ok && ended.fromKeyboard() {
			return nil // The terminal has sent the signal to the command too.
		}
		return cmd.Process.Signal(unix.SIGHUP) // A shell at a terminal ignores SIGTERM.
	}
	if s.terminal != nil {
		cmd.SysProcAttr = s.terminal.attributes()
		defer s.terminal.takeBack()
	}
	return s.status(cmd, s.site.Attach(cmd))
}

// args returns the arguments of bash. It greets the person at a terminal.
func (s *shell) args() ([]string, error) {
	switch {
	case s.command != "":
		return []string{"-c", s.command}, nil
	case s.terminal == nil:
		return []string{"-s"}, nil
	}
	path := filepath.Join(s.site.Dir(), "bashrc")
	if err := os.WriteFile(path, []byte(startFile), 0o600); err != nil {
		return nil, fmt.Errorf("write the shell's start file: %w", err)
	}
	s.site.Say(greeting, s.site.LogDir())
	return []string{"--rcfile", path, "-i"}, nil
}

// status returns the exit status of a command that ran. A shell at a terminal has status 0: bash
// would return the status of the last command, which the person has seen.
func (s *shell) status(cmd *exec.Cmd, err error) (int, error) {
	state := cmd.ProcessState
	switch {
	case state == nil:
		return 0, fmt.Errorf("start a shell: %w", err)
	case s.terminal != nil:
		return 0, nil
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

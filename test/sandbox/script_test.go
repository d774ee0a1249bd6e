package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// TestScriptNeedsRoot starts the script as a user without sudo. The script ends before it builds
// anything.
func TestScriptNeedsRoot(t *testing.T) {
	t.Parallel()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	for _, name := range []string{"go", "make", "sudo"} {
		script := "#!/bin/sh\necho called: $0 >&2\nexit 1\n"
		if err := os.WriteFile(filepath.Join(programs, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(repo, "test", "sandbox.sh"))
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Geteuid(), Size: 1}},
	}
	output, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(output), "needs root") {
		t.Errorf("it ends with %v, want exit status 1 and words about root:\n%s", err, output)
	}
	if strings.Contains(string(output), "called: ") {
		t.Errorf("it calls programs:\n%s", output)
	}
}

// TestMakePassesTheCommandLine runs make with a script that prints its arguments. make must not
// expand the dollars of a command line. It reports the exit status, and fails.
func TestMakePassesTheCommandLine(t *testing.T) {
	t.Parallel()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"no command line is not an argument": {nil, "0 arguments: <>"},
		"a command line is one argument": {
			[]string{`CMD=echo "$HOME" 'a  b' $$ # c`}, `1 arguments: <echo "$HOME" 'a  b' $$ # c>`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "test"), 0o700); err != nil {
				t.Fatal(err)
			}
			script := "#!/bin/sh\necho \"$# arguments: <$1>\"\nexit 7\n"
			if err := os.WriteFile(filepath.Join(dir, "test", "sandbox.sh"), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"-C", dir, "-f", filepath.Join(repo, "Makefile"), "sandbox"}, tc.args...)
			cmd := exec.CommandContext(t.Context(), "make", args...)
			output, _ := cmd.CombinedOutput() // ProcessState has the result.
			if got := cmd.ProcessState.ExitCode(); got != 2 {
				t.Errorf("make ends with %d, want 2", got)
			}
			for _, want := range []string{tc.want, "Error 7"} {
				if !strings.Contains(string(output), want) {
					t.Errorf("make does not print %q, but\n%s", want, output)
				}
			}
		})
	}
}

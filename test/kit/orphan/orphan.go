// Package orphan has a test see what becomes of what its program has started when that is killed: the test starts its program
// again, as one that starts things and waits, and kills it.
//
// It does not know what is started.
package orphan

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

// started is what the program prints when everything runs.
const started = "started\n"

// Be is for the program that is going to be killed: it starts things, says so, and waits for an end of its input that does
// not come before. It returns the exit status.
func Be(ctx context.Context, start func(context.Context) error) int {
	if err := start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.WriteString(os.Stdout, started)
	_, _ = io.Copy(io.Discard, os.Stdin) // It is killed here.
	return 1
}

// Start starts the test's program again, with more in its environment, which is to have it call [Be]. It returns when
// everything runs. The caller must call kill, which returns when the program is gone.
func Start(t testing.TB, environment ...string) (kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != started {
		t.Fatalf("the program printed %q, %v, want %q", line, err, started)
	}
	return func() {
		t.Helper()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // It was killed: that is not an error here.
	}
}

// Left returns the command lines of programs that name a folder, or work in it.
func Left(t testing.TB, folder string) []string {
	t.Helper()
	all, err := procfs.AllProcs()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range all {
		args, _ := p.CmdLine() // Of one that has ended there is nothing.
		cwd, _ := p.Cwd()
		if line := strings.Join(args, " "); strings.HasPrefix(cwd, folder) || strings.Contains(line, folder) {
			found = append(found, line)
		}
	}
	return found
}

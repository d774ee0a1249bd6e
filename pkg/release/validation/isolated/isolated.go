// Package isolated checks the content of an object in a separate process: a schema that somebody
// wrote must not stop the releases of others. On Linux the kernel limits its time and its memory,
// and the process can open no file and no socket, and start no other process.
//
// The process is the calling program again, which calls [Main] when it finds [Argument] among its
// arguments.
package isolated

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
)

// Argument is the first argument of the process that checks.
const Argument = "check-edit"

// Limits of one check. The memory comes on top of what the program has when it starts.
const (
	mostTime   = 5 * time.Second
	mostMemory = 64 << 20
	// leastWork is how much of the time a process must have worked, to have needed it: else the
	// machine was busy.
	leastWork = time.Second
)

// LimitError is why a content could not be checked: its rules ask for too much.
type LimitError struct{ What string }

func (e *LimitError) Error() string {
	return fmt.Sprintf("the rules take more than %s to check; make the schema or the value smaller", e.What)
}

// Checker starts processes, as many at a time as its callers ask for.
type Checker struct {
	// Program is the path of a program that calls [Main].
	Program string
}

// New returns a checker that starts the program that it is in.
func New() (*Checker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find out what checks edits: %w", err)
	}
	return &Checker{Program: program}, nil
}

// request is what the process reads.
type request struct {
	Rules   []settings.Rule
	Content validation.Content
}

// Check is [validation.Check]. The error is a *LimitError if the rules ask for too much, or if the
// process died of them, and else that of a machine that could not start the process.
func (c *Checker) Check(
	ctx context.Context, rules []settings.Rule, content validation.Content,
) ([]validation.Problem, error) {
	return c.checkWithin(ctx, mostTime, rules, content)
}

func (c *Checker) checkWithin(
	ctx context.Context, most time.Duration, rules []settings.Rule, content validation.Content,
) ([]validation.Problem, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	input, err := json.Marshal(request{Rules: rules, Content: content})
	if err != nil {
		return nil, fmt.Errorf("check an edit: %w", err)
	}
	output, err := c.run(ctx, most, input)
	if err != nil {
		return nil, err
	}
	var problems []validation.Problem
	if err := json.Unmarshal(output, &problems); err != nil {
		return nil, fmt.Errorf("read the output of the process that checks an edit: %w", err)
	}
	return problems, nil
}

// run runs the process, for so long at most. It has no environment, and no files but its input and
// its output.
func (c *Checker) run(ctx context.Context, most time.Duration, input []byte) (output []byte, err error) {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var out bytes.Buffer
	process := exec.CommandContext(limited, c.Program, Argument) //nolint:gosec // It is this program.
	process.Stdin, process.Stdout, process.Env = bytes.NewReader(input), &out, []string{}
	dieTogether(process)
	runtime.LockOSThread() // The process dies with this thread.
	defer runtime.UnlockOSThread()
	err = process.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil && process.ProcessState != nil && worked(process) < leastWork:
		return nil, fmt.Errorf("check an edit: the machine is busy, and %s were not enough", most)
	case limited.Err() != nil:
		return nil, &LimitError{What: most.String()}
	}
	if exit, hasExited := errors.AsType[*exec.ExitError](err); hasExited {
		return nil, deathOf(exit, worked(process))
	}
	if err != nil {
		return nil, fmt.Errorf("check an edit in a separate process: %w", err)
	}
	return out.Bytes(), nil
}

func worked(process *exec.Cmd) time.Duration {
	return process.ProcessState.UserTime() + process.ProcessState.SystemTime()
}

// deathOf returns why a process died that has worked for so long. A signal is that of the kernel,
// whose limit of time it may have reached. Another exit code than that of an error means that it
// got no more memory, however long that took.
func deathOf(exit *exec.ExitError, worked time.Duration) error {
	const ordinary, rounding = 1, 100 * time.Millisecond
	switch {
	case exit.ExitCode() == ordinary:
		return fmt.Errorf("check an edit in a separate process: %w", exit)
	case !exit.Exited() && worked >= mostTime-rounding:
		return &LimitError{What: mostTime.String()}
	}
	return &LimitError{What: fmt.Sprintf("%d MiB", mostMemory>>20)}
}

// Main is the process: it gives up what it does not need, reads a request and writes the problems.
func Main(in io.Reader, out io.Writer) error {
	if err := confine(); err != nil {
		return err
	}
	return serve(in, out)
}

func serve(in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read what to check: %w", err)
	}
	return json.NewEncoder(out).Encode(validation.Check(r.Rules, r.Content))
}

// Package isolated checks the content of an object in a separate process, which ends when it takes
// too long or too much memory: a schema that somebody wrote must not stop the releases of others.
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
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
)

// Argument is the first argument of the process that checks.
const Argument = "check-edit"

// Limits of one check. The memory is that of the Go heap; the process takes about 20 MiB more.
const (
	mostTime   = 5 * time.Second
	mostMemory = 40 << 20
	// leastWork is how much of the time a process must have worked, to have needed it: else the
	// machine was busy.
	leastWork = time.Second
)

// exitMemory is the exit code of a process that took too much memory.
const exitMemory = 77

// LimitError is why a content could not be checked: its rules ask for too much.
type LimitError struct{ What string }

func (e *LimitError) Error() string {
	return fmt.Sprintf("the rules take more than %s to check; make the schema or the value smaller", e.What)
}

// Checker starts processes.
type Checker struct {
	// Program is the path of a program that calls [Main].
	Program string
	turn    chan struct{} // Holds one signal: one process at a time.
}

// New returns a checker that starts the program that it is in.
func New() (*Checker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find out what checks edits: %w", err)
	}
	c := &Checker{Program: program, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c, nil
}

// request is what the process reads.
type request struct {
	Rules   []settings.Rule
	Content validation.Content
}

// Check is [validation.Check]. The error is a *LimitError if the rules ask for too much, and else
// that of a machine that could not start the process.
func (c *Checker) Check(ctx context.Context, rules []settings.Rule, content validation.Content) ([]validation.Problem, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	input, err := json.Marshal(request{Rules: rules, Content: content})
	if err != nil {
		return nil, fmt.Errorf("check an edit: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	var out bytes.Buffer
	process := exec.CommandContext(limited, c.Program, Argument) //nolint:gosec // It is this program.
	process.Stdin, process.Stdout, process.Env = bytes.NewReader(input), &out, []string{}
	err = process.Run()
	exit, hasExited := errors.AsType[*exec.ExitError](err)
	const ordinary = 1
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil && hasExited && exit.UserTime()+exit.SystemTime() < leastWork:
		return nil, fmt.Errorf("check an edit: the machine is busy, and %s were not enough", mostTime)
	case limited.Err() != nil:
		return nil, &LimitError{What: mostTime.String()}
	case hasExited && exit.ExitCode() != ordinary: // It has ended itself, or the kernel or a library has.
		return nil, &LimitError{What: fmt.Sprintf("%d MiB", mostMemory>>20)}
	case err != nil:
		return nil, fmt.Errorf("check an edit in a separate process: %w", err)
	}
	var problems []validation.Problem
	if err := json.Unmarshal(out.Bytes(), &problems); err != nil {
		return nil, fmt.Errorf("read the output of the process that checks an edit: %w", err)
	}
	return problems, nil
}

// Main is the process: it reads a request and writes the problems.
func Main(in io.Reader, out io.Writer) error {
	debug.SetMemoryLimit(mostMemory)
	go watchMemory()
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read what to check: %w", err)
	}
	return json.NewEncoder(out).Encode(validation.Check(r.Rules, r.Content))
}

// watchMemory ends the process when it takes too much.
func watchMemory() {
	const interval = 2 * time.Millisecond
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for range time.Tick(interval) {
		metrics.Read(sample)
		if sample[0].Value.Uint64() > mostMemory {
			os.Exit(exitMemory) //nolint:forbidigo // The process exists for this.
		}
	}
}

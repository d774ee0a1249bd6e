package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The codes with which a program ends that should start another one and cannot, as env(1) and
// shells have them.
const (
	// CodeNotExecutable is for a program that was found.
	CodeNotExecutable = 126
	// CodeNotFound is for one that was not.
	CodeNotFound = 127
)

// StartError is why a program was not started.
type StartError struct {
	// Code is the one to exit with.
	Code    int
	Program string
	Err     error
}

func (e *StartError) Error() string { return e.Program + ": " + e.Err.Error() }

// Unwrap returns the error of the kernel.
func (e *StartError) Unwrap() error { return e.Err }

// standardPath is searched where the environment has no PATH.
const standardPath = "/bin:/usr/bin"

// Exec replaces this process by a command. It returns only if that does not work.
func Exec(command, environment []string) error {
	return try(command[0], environment, func(path string) error {
		return unix.Exec(path, command, environment)
	})
}

// try calls start with the paths at which a program may be, until the program starts, or start
// returns another error than that the program does not exist. It looks for a name without a slash
// in each directory of PATH, in order. PATH is from the environment that the program gets. try
// skips a program that may not be run, and reports it only if it finds no other.
func try(program string, environment []string, start func(path string) error) error {
	denied := error(nil)
	for _, path := range candidates(program, environment) {
		err := start(path)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.ENOENT) && !exists(path), errors.Is(err, unix.ENOTDIR):
		case errors.Is(err, unix.EACCES):
			denied = err
		default:
			return &StartError{Code: CodeNotExecutable, Program: path, Err: explained(err)}
		}
	}
	switch {
	case denied != nil:
		return &StartError{
			Code: CodeNotExecutable, Program: program, Err: fmt.Errorf("user %d may not run it: %w", os.Geteuid(), denied),
		}
	case strings.Contains(program, "/"):
		return &StartError{Code: CodeNotFound, Program: program, Err: errors.New("there is no such file")}
	}
	return &StartError{
		Code: CodeNotFound, Program: program, Err: errors.New("there is no such program in the directories of PATH"),
	}
}

func candidates(program string, environment []string) []string {
	if strings.Contains(program, "/") {
		return []string{program}
	}
	if program == "" {
		return nil
	}
	var all []string
	for _, dir := range filepath.SplitList(valueOf("PATH", standardPath, environment)) {
		if dir == "" {
			dir = "."
		}
		all = append(all, dir+"/"+program)
	}
	return all
}

// valueOf returns a variable as the C library finds it: the first of its name.
func valueOf(name, otherwise string, environment []string) string {
	for _, variable := range environment {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return otherwise
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// explained returns what an error of the kernel's is about.
func explained(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("it is there, but not the interpreter that it names in its first line, or its dynamic loader: %w",
			err)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("it is a program for another machine, or a script without #! in its first line: %w", err)
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("its arguments and variables are too large: %w", err)
	}
	return err
}

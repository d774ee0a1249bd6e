// Package narrator runs a demo and reports what it does: what is being done, what a volume holds, and what a change has changed.
//
// It does not know the driver, and looks at volumes as a program in a pod would.
package narrator

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Narrator prints to a terminal, or to a file without colors.
type Narrator struct {
	Out    io.Writer
	Colors bool
}

// Say announces a step.
func (n Narrator) Say(format string, args ...any) {
	fmt.Fprintf(n.Out, "\n%s\n", n.color("1", "==> "+fmt.Sprintf(format, args...)))
}

// Print prints a line of a step.
func (n Narrator) Print(format string, args ...any) {
	fmt.Fprintf(n.Out, "    "+format+"\n", args...)
}

// Show prints everything in a volume, as ls -lR would, and every file's bytes.
func (n Narrator) Show(volume string) error {
	fmt.Fprintln(n.Out)
	return filepath.WalkDir(volume, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		line, err := describe(volume, path, entry)
		if err != nil {
			return err
		}
		n.Print("%s", line)
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path) //nolint:gosec // The demo's own volume, which nobody else can change.
		n.Print("%s", Bar(string(data)))
		return err
	})
}

// describe returns mode, owner and name of an entry.
func describe(root, path string, entry fs.DirEntry) (string, error) {
	info, err := entry.Info()
	if err != nil {
		return "", err
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no owner", path)
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		name += " -> " + target
	}
	return fmt.Sprintf("%-11s %d:%d  %s", info.Mode(), owner.Uid, owner.Gid, name), nil
}

// ReadTree returns the bytes of every file that a user of the volume sees, by its path through ..data.
func ReadTree(volume string) (map[string]string, error) {
	files := map[string]string{}
	root, err := filepath.EvalSymlinks(filepath.Join(volume, "..data"))
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path) //nolint:gosec // As above.
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		files[name] = string(data)
		return err
	})
	return files, err
}

// PrintChanges prints each file that differs. It is an error when none does.
func (n Narrator) PrintChanges(before, after map[string]string) error {
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] == after[name] {
			continue
		}
		changed = true
		n.Print("%s", name)
		n.printLines("-", before[name], after[name])
		n.printLines("+", after[name], before[name])
	}
	if !changed {
		return errors.New("the volume was swapped, but no file differs")
	}
	return nil
}

// printLines prints the lines of text that other does not have.
func (n Narrator) printLines(sign, text, other string) {
	lines := strings.Split(other, "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.Contains(lines, line) {
			n.Print("  %s %s", sign, line)
		}
	}
}

// Indent moves a text to the right.
func Indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
}

// Bar sets a text off at its left.
func Bar(text string) string {
	return "  | " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      | ")
}

// Milliseconds returns a time as people read it.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

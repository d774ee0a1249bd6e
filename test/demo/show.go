package main

import (
	"context"
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

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "\n==> "+format+"\n", args...)
}

func (d *demo) print(format string, args ...any) {
	fmt.Fprintf(d.out, "    "+format+"\n", args...)
}

func (d *demo) apply(ctx context.Context, path string) error {
	_, err := d.cluster.Apply(ctx, filepath.Join(d.repo, path))
	return err
}

// read returns the ConfigMap in a file of the checkout.
func (d *demo) read(path string) (*corev1.ConfigMap, error) {
	data, err := os.ReadFile(filepath.Join(d.repo, path))
	if err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{}
	return cm, yaml.UnmarshalStrict(data, cm)
}

// show prints everything in the volume, as ls -lR would, and every file's bytes.
func (d *demo) show() error {
	fmt.Fprintln(d.out)
	return filepath.WalkDir(d.volume, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		line, err := describe(d.volume, path, entry)
		if err != nil {
			return err
		}
		d.print("%s", line)
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path) //nolint:gosec // The demo's own volume, which nobody else can change.
		d.print("%s", bar(string(data)))
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

// readTree returns the bytes of every file that a user of the volume sees, by its path through ..data.
func readTree(volume string) (map[string]string, error) {
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

// printChanges prints each file that differs. It is an error when none does.
func printChanges(out io.Writer, before, after map[string]string) error {
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
		fmt.Fprintf(out, "    %s\n", name)
		printLines(out, "-", before[name], after[name])
		printLines(out, "+", after[name], before[name])
	}
	if !changed {
		return fmt.Errorf("the volume was swapped, but no file differs")
	}
	return nil
}

// printLines prints the lines of text that other does not have.
func printLines(out io.Writer, sign, text, other string) {
	lines := strings.Split(other, "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.Contains(lines, line) {
			fmt.Fprintf(out, "      %s %s\n", sign, line)
		}
	}
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
}

func bar(text string) string {
	return "  | " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      | ")
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// afterOrBefore says when the files changed. The watch event may overtake the answer to the request that caused it.
func afterOrBefore(d time.Duration) string {
	if d < 0 {
		return milliseconds(-d) + " before"
	}
	return milliseconds(d) + " after"
}

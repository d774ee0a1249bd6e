package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/rand"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroups are the control groups below which a node's pods live, one in each hierarchy.
type cgroups []string

// newCgroups makes groups of a name that nobody else uses, and removes those whose program is dead. The name has the
// program's process ID.
func newCgroups() (cgroups, error) {
	name := fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), rand.String(6))
	roots, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var groups cgroups
	for _, root := range roots {
		if err := removeAbandoned(root); err != nil {
			return nil, err
		}
		groups = append(groups, filepath.Join(root, name))
	}
	return groups, groups.make()
}

func (c cgroups) make() error {
	for _, dir := range c {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make a control group for the node's pods: %w", err)
		}
		if err := inheritCPUs(dir); err != nil {
			return err
		}
	}
	return nil
}

// empty removes all groups below.
func (c cgroups) empty() error {
	if err := c.remove(); err != nil {
		return err
	}
	return c.make()
}

// hierarchies returns the one of cgroup v2, or those of v1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	files, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("find control groups in %s: %w", cgroupRoot, errors.Join(err, fs.ErrNotExist))
	}
	var roots []string
	for _, f := range files {
		roots = append(roots, filepath.Dir(f))
	}
	return roots, nil
}

// inheritCPUs does what only version 1 leaves to the creator of a group.
func inheritCPUs(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o600); err != nil {
			return fmt.Errorf("give the node's pods CPUs: %w", err)
		}
	}
	return nil
}

func removeAbandoned(root string) error {
	left, err := filepath.Glob(filepath.Join(root, prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), prefix+"%d-", &pid); err != nil || unix.Kill(pid, 0) == nil {
			continue // It is not of this kind, or its program is alive.
		}
		if err := (cgroups{dir}).remove(); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the groups with those below. The kernel keeps a group for a moment after its last process has died.
func (c cgroups) remove() error {
	var errs []error
	for _, dir := range c {
		deadline := time.Now().Add(10 * time.Second)
		err := removeTree(dir)
		for err != nil && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // The kernel sends no event.
			err = removeTree(dir)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
	}
	return nil
}

// name is what the groups are called in each hierarchy.
func (c cgroups) name() string { return filepath.Base(c[0]) }

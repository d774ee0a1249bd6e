package budget

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unlimited is a limit that no control group has. Version 1 reports the absence of a limit as the
// largest number of whole pages, which is more than this on each architecture of 64 bits.
const unlimited = int64(1) << 62

// cgroup is the control group that limits the memory of a process.
type cgroup struct {
	path    string // Below the root of the hierarchy.
	isFirst bool   // Of version 1.
}

// cgroupLimit returns the memory limit of a process, or zero for none. proc is the directory of the
// process, such as /proc/self. The limit is the smallest of the group and of those above it, as far
// as the process sees them.
func cgroupLimit(proc string) (int64, error) {
	groups, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil {
		return 0, err
	}
	group, isLimited := memoryGroup(string(groups))
	if !isLimited {
		return 0, nil
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return 0, err
	}
	limit, isSeen, errs := unlimited, false, error(nil)
	for top, dir := range group.dirs(string(mounts)) {
		if _, err := os.Stat(dir); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		isSeen = true
		read := secondLimit
		if group.isFirst {
			read = firstLimit
		}
		found, err := read(top, dir)
		limit, errs = min(limit, found), errors.Join(errs, err)
	}
	switch {
	case limit < unlimited:
		return limit, nil
	case !isSeen:
		return 0, errors.Join(fmt.Errorf("no mount shows the control group %s", group.path), errs)
	}
	return 0, errs
}

// memoryGroup finds the group that limits memory in the lines of /proc/PID/cgroup, which are a
// number, controllers and a path. Where both versions are in use, memory is of version 1 if that
// lists it.
func memoryGroup(lines string) (group cgroup, isFound bool) {
	for line := range strings.Lines(lines) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(fields) < 3:
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			return cgroup{path: fields[2], isFirst: true}, true
		case fields[0] == "0" && fields[1] == "":
			group, isFound = cgroup{path: fields[2]}, true
		}
	}
	return group, isFound
}

// dirs returns the directories of the group, by the place at which its hierarchy is mounted. A
// mount may show only a part of the hierarchy, as in a container. Lines of /proc/PID/mountinfo
// have the root in that hierarchy and the mount point as the fourth and fifth field, and after a
// dash the type and, at the end, the controllers.
func (g cgroup) dirs(mounts string) map[string]string {
	dirs := map[string]string{}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		place, about := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(about) < 2 {
			continue
		}
		isOurs := about[0] == "cgroup2"
		if g.isFirst {
			isOurs = about[0] == "cgroup" && slices.Contains(strings.Split(about[len(about)-1], ","), "memory")
		}
		below, err := filepath.Rel(place[3], g.path)
		if isOurs && err == nil && filepath.IsLocal(below) {
			dirs[place[4]] = filepath.Join(place[4], below)
		}
	}
	return dirs
}

// secondLimit returns the smallest limit of a group of version 2 and of those above it, up to the
// mount. Above memory.high, which the kubelet sets below memory.max with MemoryQoS, the kernel
// slows a process down until it hardly runs: that is a limit, too. The group at the root of the
// hierarchy has no file.
func secondLimit(top, dir string) (int64, error) {
	limit := unlimited
	for {
		for _, file := range []string{"memory.max", "memory.high"} {
			found, err := readLimit(filepath.Join(dir, file))
			if err != nil {
				return limit, err
			}
			limit = min(limit, found)
		}
		if dir == top || dir == filepath.Dir(dir) {
			return limit, nil
		}
		dir = filepath.Dir(dir)
	}
}

// firstLimit returns the limit of a group of version 1. The kernel adds the smallest limit of those
// above it, which a container may not see, to the statistics.
func firstLimit(_, dir string) (int64, error) {
	limit, err := readLimit(filepath.Join(dir, "memory.limit_in_bytes"))
	stat, statErr := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if statErr != nil && !errors.Is(statErr, fs.ErrNotExist) {
		return limit, errors.Join(err, statErr)
	}
	for line := range bytes.Lines(stat) {
		if text, isIt := bytes.CutPrefix(line, []byte("hierarchical_memory_limit ")); isIt {
			above, aboveErr := parseLimit(string(text))
			return min(limit, above), errors.Join(err, aboveErr)
		}
	}
	return limit, err
}

// readLimit reads a file with a limit. Without the file there is no limit.
func readLimit(file string) (int64, error) {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unlimited, nil
	case err != nil:
		return unlimited, err
	}
	limit, err := parseLimit(string(text))
	if err != nil {
		return unlimited, fmt.Errorf("read %s: %w", file, err)
	}
	return limit, nil
}

func parseLimit(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return unlimited, nil
	}
	limit, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return unlimited, err
	}
	return int64(min(limit, uint64(unlimited))), nil
}

// nodeMemory returns how many bytes of memory the node has.
func nodeMemory() (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, os.NewSyscallError("sysinfo", err)
	}
	return int64(info.Totalram) * int64(info.Unit), nil //nolint:gosec // No node has as much.
}

// Package memcg makes control groups with a memory limit, as containers have, and runs programs in them.
//
// It does not know the programs.
package memcg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrForbidden is wrapped when this process may not make control groups, as ordinary users may not. For root it is never
// the reason: where root cannot make them, a test that asks for one must fail.
var ErrForbidden = errors.New("control groups cannot be made here")

// Where the kernel shows control groups: of version 1, and of version 2.
const (
	first  = "/sys/fs/cgroup/memory"
	second = "/sys/fs/cgroup"
)

// Group is a control group. Its user removes it.
type Group struct {
	dir     string
	isFirst bool
}

// New makes a group of that name with a limit in bytes, without swap.
func New(name string, limit int64) (*Group, error) {
	g := &Group{dir: filepath.Join(second, name)}
	if _, err := os.Stat(filepath.Join(first, "memory.limit_in_bytes")); err == nil {
		g = &Group{dir: filepath.Join(first, name), isFirst: true}
	}
	if err := g.make(strconv.FormatInt(limit, 10)); err != nil {
		if isForbidden(err) && !isRoot() {
			err = fmt.Errorf("%w: %w", ErrForbidden, err)
		}
		return nil, fmt.Errorf("make control group %s: %w", g.dir, err)
	}
	return g, nil
}

func isForbidden(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EBUSY)
}

// isRoot reports whether this process is root of the machine, and not only of a separate user namespace.
func isRoot() bool {
	users, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(users))
	const all = "4294967295"
	return err == nil && os.Geteuid() == 0 && len(fields) == 3 && fields[0] == "0" && fields[1] == "0" && fields[2] == all
}

func (g *Group) make(limit string) error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	err := g.limit(limit)
	if err != nil {
		return errors.Join(err, os.Remove(g.dir))
	}
	return nil
}

func (g *Group) limit(limit string) error {
	if !g.isFirst {
		return errors.Join(g.write("memory.max", limit), g.writeIfThere("memory.swap.max", "0"))
	}
	return errors.Join(g.write("memory.limit_in_bytes", limit), g.writeIfThere("memory.memsw.limit_in_bytes", limit))
}

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o600)
}

// writeIfThere is for what kernels without swap accounting lack.
func (g *Group) writeIfThere(file, text string) error {
	if _, err := os.Stat(filepath.Join(g.dir, file)); err != nil {
		return nil //nolint:nilerr // As said above.
	}
	return g.write(file, text)
}

// Raise sets a higher limit.
func (g *Group) Raise(limit int64) error {
	text := strconv.FormatInt(limit, 10)
	if !g.isFirst {
		return g.write("memory.max", text)
	}
	return errors.Join(g.writeIfThere("memory.memsw.limit_in_bytes", text), g.write("memory.limit_in_bytes", text))
}

// Launcher is a command that moves itself into the group and becomes the command it is given.
func (g *Group) Launcher() []string {
	return []string{"/bin/sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}
}

// Kills returns how many processes the kernel has killed because the group was full.
func (g *Group) Kills() (int, error) {
	file := "memory.events"
	if g.isFirst {
		file = "memory.oom_control"
	}
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return strconv.Atoi(n)
		}
	}
	return 0, fmt.Errorf("%s says nothing of oom_kill: %q", file, text)
}

// Remove removes the group, in which nothing may run any more. The kernel takes a moment to notice.
func (g *Group) Remove() error {
	var err error
	for range 100 {
		if err = os.Remove(g.dir); !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // What is waited for has no event.
	}
	return err
}

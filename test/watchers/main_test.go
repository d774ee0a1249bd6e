// Package watchers finds out which programs see a change of a volume, and writes it down in docs/watching.md: a real driver
// changes real volumes, and real programs look at them as they would in a container. They have to be installed.
//
// It does not know how the driver gets a change, nor how fast.
package watchers

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// The test binary does something else than run tests if one of these is set. Each holds JSON.
const (
	containerVariable = "LIVECONFIG_WATCHERS_CONTAINER"
	taskVariable      = "LIVECONFIG_WATCHERS_TASK"
)

// atATime is how many volumes are watched at once: the kernel limits the inotify instances of a user to 128 by default.
const atATime = "2"

func TestMain(m *testing.M) {
	for variable, run := range map[string]func(text string) error{containerVariable: enter, taskVariable: runTask} {
		text := os.Getenv(variable)
		if text == "" {
			continue
		}
		os.Unsetenv(variable)
		if err := run(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := flag.Set("test.parallel", atATime); err != nil {
		panic(err)
	}
	os.Exit(environment.Main(m))
}

// container is what a process becomes before it starts the program of a row: it sees the volume at another path, read-only.
type container struct {
	// Target is the volume, View an empty directory at which the program sees it.
	Target, View string
	// Command is the program and its arguments, Env is what its environment has more.
	Command, Env []string
}

// enter replaces this process, which has a separate mount namespace, by the program in the container.
func enter(text string) error {
	var c container
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := unix.Mount(c.Target, c.View, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s at %s: %w", c.Target, c.View, err)
	}
	const flags = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", c.View, "", flags, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", c.View, err)
	}
	if err := unix.Unmount(c.Target, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", c.Target, err)
	}
	if _, err := os.Create(c.View + "/forbidden"); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("write to the view = %w, want a read-only file system", err)
	}
	return fmt.Errorf("start %s: %w", c.Command[0], unix.Exec(c.Command[0], c.Command, append(os.Environ(), c.Env...)))
}

// Package watchers finds out which programs see a change of a volume, and writes it down in docs/watching.md: a real driver
// changes real volumes, and real programs look at them as they would in a container. They have to be installed.
//
// Programs that must be asked to read their files run with liveconfig-reload beside them, as docs/reload.md has it.
//
// It does not know how the driver gets a change, nor how fast.
package watchers

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/page"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
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
	// Binds are directories that the program sees at other paths as well.
	Binds map[string]string
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
	if err := c.showProcesses(); err != nil {
		return err
	}
	if err := unix.Mount(c.Target, c.View, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s at %s: %w", c.Target, c.View, err)
	}
	for from, to := range c.Binds {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s at %s: %w", from, to, err)
		}
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

// showProcesses mounts a /proc with the processes of the container, if it has its own.
func (container) showProcesses() error {
	if os.Getpid() != 1 {
		return nil
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// startIn starts a program in a container. More namespaces are for programs that start others.
func (p place) startIn(t testing.TB, command, env []string, namespaces uintptr) (*process.Process, error) {
	t.Helper()
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("%w; type: make bin/watchers", err)
	}
	text, err := json.Marshal(container{
		Target: p.volume.Path(p.volume.pod, ""), View: p.view, Binds: p.binds, Command: append([]string{path}, command[1:]...), Env: env,
	})
	if err != nil {
		return nil, err
	}
	started, err := process.Start(t.Context(), process.Config{
		Path: "/proc/self/exe", Env: append(os.Environ(), containerVariable+"="+string(text)),
		LogFile: p.log(), Namespaces: unix.CLONE_NEWNS | namespaces,
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := started.Kill(); err != nil {
			t.Error(err)
		}
	})
	return started, nil
}

func (p place) log() string { return filepath.Join(p.dir, "log") }

// follower is a program that prints what it reads when it sees a change.
type follower struct {
	place

	process *process.Process
	markers int
}

// follow returns a row's start for a program in another language. It is given what is watched below the volume, the file that
// it reads, and the directory of markers.
func follow(watched string, command ...string) func(testing.TB, place) (watcher, error) {
	return func(t testing.TB, at place) (watcher, error) {
		t.Helper()
		file := filepath.Join(at.view, watchedFile)
		return at.follow(t, append(slices.Clone(command), filepath.Join(at.view, watched), file, at.markers), []string{"NODE_PATH=/usr/share/nodejs"}, 0)
	}
}

// followByTask returns a row's start for a [task].
func followByTask(watched, kind string) func(testing.TB, place) (watcher, error) {
	return func(t testing.TB, at place) (watcher, error) {
		t.Helper()
		text, err := json.Marshal(task{
			Kind: kind, Watched: filepath.Join(at.view, watched), File: filepath.Join(at.view, watchedFile), Markers: at.markers,
		})
		if err != nil {
			return nil, err
		}
		return at.follow(t, []string{"/proc/self/exe"}, []string{taskVariable + "=" + string(text)}, 0)
	}
}

// script runs the script of docs/watching.md. Instead of sending signals it prints what a server would read.
func script(t testing.TB, at place) (watcher, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "watching.md"))
	if err != nil {
		return nil, err
	}
	commands := page.Commands(page.Section(string(text), "Reload by a command"))
	if len(commands) != 1 {
		return nil, fmt.Errorf("the page has %d scripts, want 1", len(commands))
	}
	code := commands[0]
	for old, now := range map[string]string{
		"inotifywait -m -q":     "inotifywait -m", // It has to print when it watches.
		"/etc/nginx/conf.d":     at.view + " " + at.markers,
		"*.conf":                "*.conf | " + markerFile,
		"pkill -HUP -o nginx ;": fmt.Sprintf(`echo "$(cat %s/%s)"; echo "$(cat %s/%s)" ;`, at.view, watchedFile, at.markers, markerFile),
	} {
		if !strings.Contains(code, old) {
			return nil, fmt.Errorf("the script of the page has no %q", old)
		}
		code = strings.Replace(code, old, now, 1)
	}
	return at.follow(t, []string{"sh", "-c", code}, nil, ownProcesses)
}

// follow starts a follower. It returns none if there is nothing to watch.
func (p place) follow(t testing.TB, command, env []string, namespaces uintptr) (watcher, error) {
	t.Helper()
	if err := p.write("markers/"+markerFile, markerText(0)); err != nil {
		return nil, err
	}
	started, err := p.startIn(t, command, env, namespaces)
	if err != nil {
		return nil, err
	}
	f := &follower{place: p, process: started}
	isRefused := false
	err = p.retry(started, func() error {
		text, err := f.printed()
		isRefused = strings.HasPrefix(text, cannotWatchLine)
		if err != nil || isRefused || f.has(text, readyLine) || f.has(text, established) {
			return err
		}
		return errors.New("it does not watch yet")
	})
	if isRefused {
		return nil, err
	}
	return f, err
}

// settle makes a marker, waits until the program has read it, and does that again: a program with several threads may be
// faster with the first one than with a change before.
func (f *follower) settle(int) error {
	for range 2 {
		f.markers++
		if err := f.settleOnce(); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) settleOnce() error {
	var made time.Time
	return f.retry(f.process, func() error {
		if time.Since(made) > again {
			if err := f.write("markers/"+markerFile, markerText(f.markers)); err != nil {
				return err
			}
			made = time.Now()
		}
		text, err := f.printed()
		if err != nil || f.has(text, markerText(f.markers)) {
			return err
		}
		return fmt.Errorf("it has not seen %s", markerText(f.markers))
	})
}

func (f *follower) sees(version int) (bool, error) {
	text, err := f.printed()
	return f.has(text, versionText(version)), err
}

func (f *follower) printed() (string, error) {
	text, err := os.ReadFile(f.log())
	return string(text), err
}

// has reports whether a line was printed.
func (*follower) has(text, line string) bool { return slices.Contains(strings.Split(text, "\n"), line) }

func markerText(n int) string { return fmt.Sprintf("marker %d", n) }

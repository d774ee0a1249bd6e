package watchers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// What a watching program prints when it starts. After that it prints what it reads, a line each.
const (
	readyLine       = "ready"
	cannotWatchLine = "cannot watch"
)

// markerFile is the only file in the directory of markers.
const markerFile = "marker"

// pollingInterval is that of the programs that poll.
const pollingInterval = 20 * time.Millisecond

// task is a watching program that is written in Go. All of them watch the directory Markers as well, print the file in it
// when something happens there, and print File when something happens elsewhere.
type task struct {
	// Kind names the function that watches.
	Kind string
	// Watched is what is watched, File what is read.
	Watched, File, Markers string
}

// runTask runs a task. It returns at an error, or when there is nothing to watch.
func runTask(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	run, ok := map[string]func() error{
		"fsnotify":              t.fsnotify,
		"inotifywait":           t.inotifywait,
		"inotifywait in a loop": t.inotifywaitLoop,
		"envoy file":            t.envoyFile,
		"envoy directory":       t.envoyDirectory,
		"poll times":            t.pollTimes,
		"poll contents":         t.pollContents,
	}[t.Kind]
	if !ok {
		return fmt.Errorf("there is no task %q", t.Kind)
	}
	return run()
}

// happened prints what a program reads after an event at a path.
func (t task) happened(path string) { fmt.Println(t.read(path)) }

// read returns what a program reads after an event at a path.
func (t task) read(path string) string {
	file := t.File
	if path == t.Markers || filepath.Dir(path) == t.Markers {
		file = filepath.Join(t.Markers, markerFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (t task) fsnotify() error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := w.Add(t.Watched); err != nil {
		fmt.Println(cannotWatchLine, err)
		return nil
	}
	if err := w.Add(t.Markers); err != nil {
		return err
	}
	fmt.Println(readyLine)
	for {
		select {
		case event := <-w.Events:
			t.happened(event.Name)
		case err := <-w.Errors:
			return err
		}
	}
}

// inotifywait does what a script does with the lines of `inotifywait -m`.
func (t task) inotifywait() error {
	return t.readLines(func(line string) {
		if line == established {
			fmt.Println(readyLine)
		}
		if filepath.IsAbs(line) {
			t.happened(line)
		}
	}, "--monitor")
}

// inotifywaitLoop does what a script does in which inotifywait is the condition of a loop. It prints what it has read when it
// watches again: before that it would miss what the test does next.
func (t task) inotifywaitLoop() error {
	for text := readyLine; ; {
		var at string
		err := t.readLines(func(line string) {
			if line == established {
				fmt.Println(text)
			}
			if filepath.IsAbs(line) {
				at = line
			}
		})
		if err != nil {
			return err
		}
		text = t.read(at)
	}
}

// established is what inotifywait prints when it watches.
const established = "Watches established."

// readLines runs inotifywait and hands over all that it prints, until it ends.
func (t task) readLines(each func(line string), args ...string) error {
	runtime.LockOSThread() // The kernel kills the child when the thread that made it ends.
	defer runtime.UnlockOSThread()
	const events = "modify,attrib,create,delete,move,delete_self,move_self" // All but those that reading makes.
	cmd := exec.CommandContext(context.Background(), "inotifywait", append(args, "--format=%w", "--event="+events, t.Watched, t.Markers)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		each(strings.TrimSuffix(lines.Text(), "/"))
	}
	return errors.Join(lines.Err(), cmd.Wait())
}

// envoyFile watches as Envoy does for a `path` without a `watched_directory`: it has the events of the file's directory, and
// goes by those that move a file to the name.
func (t task) envoyFile() error {
	return t.envoy(func(name string) bool { return name == filepath.Base(t.File) })
}

// envoyDirectory watches as Envoy does for a `watched_directory`: whatever is moved to a name in it counts.
func (t task) envoyDirectory() error { return t.envoy(func(string) bool { return true }) }

func (t task) envoy(counts func(name string) bool) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	const mask = unix.IN_MODIFY | unix.IN_MOVED_TO
	watch, err := unix.InotifyAddWatch(fd, t.Watched, mask)
	if err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(fd, t.Markers, mask); err != nil {
		return err
	}
	fmt.Println(readyLine)
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			id, bits := binary.NativeEndian.Uint32(rest), binary.NativeEndian.Uint32(rest[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00"))
			rest = rest[end:]
			switch {
			case int(id) != watch:
				t.happened(t.Markers)
			case bits&unix.IN_MOVED_TO != 0 && counts(name):
				t.happened(t.File)
			}
		}
	}
}

func (t task) pollTimes() error {
	return t.poll(func(path string) (string, error) {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		return info.ModTime().String(), nil
	})
}

func (t task) pollContents() error {
	return t.poll(func(path string) (string, error) {
		text, err := os.ReadFile(path)
		return string(text), err
	})
}

// poll looks at the file and then at the marker, over and over.
func (t task) poll(look func(path string) (string, error)) error {
	marker := filepath.Join(t.Markers, markerFile)
	last := map[string]string{}
	for first := true; ; first = false {
		for _, path := range []string{t.File, marker} {
			now, err := look(path)
			if err != nil {
				return err
			}
			if !first && now != last[path] {
				t.happened(path)
			}
			last[path] = now
		}
		if first {
			fmt.Println(readyLine)
		}
		<-time.After(pollingInterval)
	}
}

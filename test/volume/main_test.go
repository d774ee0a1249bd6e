// Package volume tests what a container sees of a volume: real tmpfs mounts, the real writers, and readers in
// separate processes.
//
// It does not know the API server, CSI, or the driver's process.
package volume

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// taskVariable, when set, makes the test binary read a volume instead of running tests. It holds a readTask as JSON.
const taskVariable = "LIVECONFIG_VOLUME_TASK"

func TestMain(m *testing.M) {
	if text := os.Getenv(taskVariable); text != "" {
		os.Exit(runTask(text))
	}
	os.Exit(mountns.Main(m))
}

// runTask does the task and returns the code to exit with. What went wrong with the task itself goes to standard error.
func runTask(text string) int {
	var t readTask
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.run(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "task:", err)
		return 1
	}
	return 0
}

// process runs a task in a separate mount namespace. It ends when stop is called, and is killed if the test dies.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr strings.Builder
}

func start(t *testing.T, do readTask) *process {
	t.Helper()
	text, err := json.Marshal(do)
	expect.NoError(t, err)
	p := &process{cmd: exec.CommandContext(t.Context(), "/proc/self/exe")}
	p.cmd.Env = append(os.Environ(), taskVariable+"="+string(text), "GOMAXPROCS=1", "GOGC=400")
	// A process group is what can be given a priority with all its threads.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL, Setpgid: true}
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	expect.NoError(t, err)
	p.stdout = bufio.NewReader(stdout)
	expect.NoError(t, p.cmd.Start())
	return p
}

// awaitReady returns when the process has written its first line.
func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	if line, err := p.stdout.ReadString('\n'); err != nil || line != readyLine {
		t.Fatalf("a process is not ready: line %q, %v\n%v\n%s", line, err, p.cmd.Wait(), p.stderr.String())
	}
}

// result stops the process, waits for its end and decodes what it has written.
func (p *process) result(t *testing.T, into any) {
	t.Helper()
	p.stdin.Close()
	decodeErr := json.NewDecoder(p.stdout).Decode(into)
	if err := p.cmd.Wait(); err != nil || decodeErr != nil {
		t.Fatalf("a process ended with %v, its result with %v\n%s", err, decodeErr, p.stderr.String())
	}
}

// source is the mount source of the volumes under test.
const source = "volume.test"

// roomy are limits that no test reaches by accident.
func roomy() volumefs.Limits { return volumefs.Limits{Bytes: 64 << 20, Inodes: 10000} }

// live is a published volume.
type live struct {
	fs     *volumefs.FS
	target string
	writer atomicdir.Writer
}

// publish makes a volume that holds first and mounts it for the length of the test.
func publish(t *testing.T, w atomicdir.Writer, limits volumefs.Limits, first tree.Tree) *live {
	t.Helper()
	root := t.TempDir()
	v := &live{fs: volumefs.New(volumefs.Config{Root: root, Source: source}), target: filepath.Join(root, "mount"), writer: w}
	expect.NoError(t, v.publish(limits, first))
	t.Cleanup(func() {
		if err := v.fs.Unmount(v.target); err != nil {
			t.Error(err)
		}
	})
	return v
}

func (v *live) publish(limits volumefs.Limits, first tree.Tree) (err error) {
	view, err := v.fs.Create(limits)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	if _, err := v.writer.Write(view.Dir, first); err != nil {
		return err
	}
	return view.Publish(v.target)
}

// share mounts the volume on another target as well, for the length of the test.
func (v *live) share(t *testing.T) (target string) {
	t.Helper()
	view, err := v.fs.Open(v.target)
	expect.NoError(t, err)
	defer view.Close()
	target = filepath.Join(filepath.Dir(v.target), fmt.Sprint("share-", rand.Uint64()))
	if _, err := view.Share(v.target, target); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.fs.Unmount(target); err != nil {
			t.Error(err)
		}
	})
	return target
}

// write updates the volume as the driver does.
func (v *live) write(next tree.Tree) (err error) {
	view, err := v.fs.Open(v.target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	_, err = v.writer.Write(view.Dir, next)
	return err
}

func (v *live) mustWrite(t *testing.T, next tree.Tree) {
	t.Helper()
	expect.NoError(t, v.write(next))
}

// bind mounts a file of the volume by itself, read-only, as a runtime does for a subPath.
func (v *live) bind(t *testing.T, name string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "subpath")
	expect.NoError(t, errors.Join(os.WriteFile(at, nil, 0o600), bindReadOnly(filepath.Join(v.target, name), at)))
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

func bindReadOnly(from, at string) error {
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s at %s: %w", from, at, err)
	}
	const flags = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", at, "", flags, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", at, err)
	}
	return nil
}

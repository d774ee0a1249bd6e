package lockdown_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/lockdown"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// play is the main function of a process that locks itself down, and returns its exit code. The role names what it tries
// then. What comes of it is printed; what keeps it from trying is printed on standard error, with code 100.
func play(role string) int {
	name, argument, _ := strings.Cut(role, " ")
	var err error
	switch name {
	case "none": // What a process would do that is started after all.
		fmt.Println("started")
	case "threads":
		err = threads()
	case "work":
		err = work(argument)
	case "core-files":
		if err = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
			break
		}
		name = "core"
		fallthrough
	default:
		err = lockdown.Apply(klog.Background())
		if err == nil {
			err = try(name, argument)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 100
	}
	return 0
}

func try(name, argument string) error {
	if err := os.Setenv(roleVariable, "none"); err != nil {
		return err
	}
	switch name {
	case "exec":
		return unix.Exec("/proc/self/exe", os.Args, os.Environ())
	case "execveat":
		return execveat()
	case "start":
		fmt.Println(exec.CommandContext(context.Background(), "/proc/self/exe").Start())
		return nil
	case "call":
		return call(argument)
	case "core":
		var limit unix.Rlimit
		err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
		fmt.Println(limit.Cur, limit.Max)
		return err
	}
	return fmt.Errorf("nobody knows the role %s", name)
}

// execveat executes a file that is open.
func execveat() error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	path, err := unix.BytePtrFromString("")
	if err != nil {
		return err
	}
	var none [1]*byte // The end of the arguments, and of the environment.
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, self.Fd(), uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&none[0])), uintptr(unsafe.Pointer(&none[0])), unix.AT_EMPTY_PATH, 0)
	return errno
}

// call makes a system call with no or an impossible meaning and prints the error. argument is the call's number, and the
// one argument that it gets six times over.
func call(argument string) error {
	var number, value uintptr
	if _, err := fmt.Sscan(argument, &number, &value); err != nil {
		return err
	}
	r, _, errno := unix.RawSyscall6(number, value, value, value, value, value, value)
	if r == 0 && errno == 0 && number != unix.SYS_GETPID {
		os.Exit(101) // Perhaps it was a fork.
	}
	fmt.Println(unix.ErrnoName(errno))
	return nil
}

// threads locks down a process that has many threads, lets it get more, and prints what the kernel reports of each, after a
// line about the process as it was.
func threads() error {
	before, err := status("self/task/" + strconv.Itoa(unix.Gettid()))
	if err != nil {
		return err
	}
	fmt.Println(before)
	release := make(chan struct{})
	defer close(release)
	occupy(release)
	if err := lockdown.Apply(klog.Background()); err != nil {
		return err
	}
	occupy(release)
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		line, err := status(strings.TrimPrefix(task, "/proc/"))
		if err != nil {
			return err
		}
		fmt.Println(line)
	}
	return nil
}

// occupy keeps ten threads from all other work until release is closed.
func occupy(release <-chan struct{}) {
	started := make(chan struct{})
	for range 10 {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			<-release
		}()
	}
	for range 10 {
		<-started
	}
}

// status returns what the kernel reports of a task's rights, in one line.
func status(task string) (string, error) {
	text, err := os.ReadFile("/proc/" + task + "/status")
	if err != nil {
		return "", err
	}
	wanted := []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"}
	var fields []string
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); slices.Contains(wanted, name) {
			fields = append(fields, name+"="+strings.TrimSpace(value))
		}
	}
	return strings.Join(fields, " "), nil
}

// work does what the driver does to a node, with the capabilities and the owner that the argument names, on the target
// directory that it names, and prints errors.
func work(argument string) error {
	var keep uint64
	var uid, gid int
	var target string
	if _, err := fmt.Sscan(argument, &keep, &uid, &gid, &target); err != nil {
		return err
	}
	if err := lockdown.ApplyKeeping(klog.Background(), keep); err != nil {
		return err
	}
	for _, w := range []atomicdir.Writer{atomicdir.Atomic{}, atomicdir.Replace{}, atomicdir.InPlace{}} {
		if err := live(w, uid, gid, target); err != nil {
			fmt.Printf("%T: %v\n", w, err)
			return nil
		}
	}
	fmt.Println("done")
	return nil
}

// live is the life of one volume.
func live(w atomicdir.Writer, uid, gid int, target string) error {
	volumes := volumefs.New(volumefs.Config{Root: filepath.Dir(target), Source: "lockdown"})
	if err := volumes.Check(); err != nil {
		return err
	}
	view, err := volumes.Create(volumefs.Limits{Bytes: 1 << 20, Inodes: 100})
	if err != nil {
		return err
	}
	defer view.Close()
	if _, err := w.Write(view.Dir, content("old", uid, gid)); err != nil {
		return err
	}
	if err := view.Publish(target); err != nil {
		return err
	}
	return errors.Join(update(volumes, w, content("new", uid, gid), target), volumes.Unmount(target))
}

func update(volumes *volumefs.FS, w atomicdir.Writer, t tree.Tree, target string) error {
	view, err := volumes.Open(target)
	if err != nil {
		return err
	}
	defer view.Close()
	if _, err := w.Write(view.Dir, t); err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(target, "dir", "file"))
	if err != nil {
		return err
	}
	link, err := filepath.EvalSymlinks(filepath.Join(target, "dir"))
	if err != nil {
		return err
	}
	info, err := os.Stat(link)
	if err != nil {
		return err
	}
	if string(got) != "new" || info.Mode()&^fs.ModeDir != t.DirMode {
		return fmt.Errorf("%s holds %q, and its directory has mode %v; want %q and %v", target, got, info.Mode(), "new", t.DirMode)
	}
	return nil
}

// content is a tree with what takes privileges: another owner, setgid directories, a file that its owner may not write.
func content(text string, uid, gid int) tree.Tree {
	return tree.Tree{
		Files:   []tree.File{{Path: "dir/" + text, Mode: 0o440}, {Path: "dir/file", Data: []byte(text), Mode: 0o400}},
		DirMode: fs.ModeSetgid | 0o755, UID: uid, GID: gid,
	}
}

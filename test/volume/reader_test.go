package volume

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readyLine is the first line a reader writes.
const readyLine = "ready\n"

// niceness is that of readers.
const niceness = 19

// readTask reads a volume over and over, until standard input ends, and then writes its counts.
type readTask struct {
	// Target is the volume, View an empty directory at which the process sees it.
	Target, View string
	Owners       owners
	// Linked means that the volume has the layout with ..data; otherwise no symlink may be in it.
	Linked bool
	// Grace is how long an open may take at most for the driver to answer for it.
	Grace time.Duration
}

// counts are what a reader has seen. Those of the second group are faults.
type counts struct {
	// Rounds are the times everything was read; Opens and Reads count names and files; Sets are the directories read
	// as a whole, Overtaken those of them that an update took away meanwhile; Versions are the changes of version seen;
	// Late are the opens that found nothing after they had waited for a processor for longer than the grace.
	Rounds, Opens, Reads, Sets, Overtaken, Versions, Late int

	// Mixed are directories with files of several versions, or with too few or too many; FailedOpens are names that
	// were there all the time and could not be opened; Wrong are modes and owners other than the version's; Torn are
	// files with other bytes; Symlinks are those that must not be.
	Mixed, FailedOpens, Wrong, Torn, Symlinks int

	// Last is the version seen last. Examples show the first faults.
	Last     int
	Examples []string
}

// run does all the work on one thread: capabilities belong to threads.
func (r *readTask) run(stdin io.Reader, stdout io.Writer) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := r.enter(); err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, readyLine); err != nil {
		return err
	}
	var stopped atomic.Bool
	go func() {
		defer stopped.Store(true)
		_, _ = io.Copy(io.Discard, stdin) // However it ends, nobody waits for more.
	}()
	root, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	reader := &reader{task: *r, root: root, expected: &expectations{owners: r.Owners, known: map[int]expectation{}}}
	for last := false; !last; {
		last = stopped.Load() // One round more sees what was written last.
		if err := reader.round(); err != nil {
			return err
		}
	}
	return json.NewEncoder(stdout).Encode(reader.counts)
}

// enter makes of the process what a container is: it sees the volume at another path, read-only, and has no rights but
// those of its user.
func (r *readTask) enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := bindReadOnly(r.Target, r.View); err != nil {
		return err
	}
	if err := unix.Unmount(r.Target, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", r.Target, err)
	}
	// Directories above may be closed to the user.
	if err := os.Chdir(r.View); err != nil {
		return err
	}
	// Otherwise the writer would have a seventeenth of the machine, and most of the time nothing would change.
	if err := unix.Setpriority(unix.PRIO_PGRP, 0, niceness); err != nil {
		return fmt.Errorf("be nice: %w", err)
	}
	if err := r.dropRights(); err != nil {
		return err
	}
	if _, err := os.Create("forbidden"); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("write to the view = %w, want a read-only file system", err)
	}
	return nil
}

func (r *readTask) dropRights() error {
	if id := r.Owners.Reader; id != os.Getuid() {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(id), syscall.Setuid(id)); err != nil {
			return fmt.Errorf("become user %d: %w", id, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	// A change of user has undone what the parent asked for.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// reader is a readTask at work.
type reader struct {
	counts

	task     readTask
	root     int
	expected *expectations
	buf      []byte
}

// round reads everything once. Errors are those of the reader; the volume's are counted.
func (r *reader) round() error {
	r.Rounds++
	if r.task.Linked {
		if err := r.readSet("..data", "."); err != nil {
			return err
		}
	}
	list, err := names(r.root)
	if err != nil {
		return fmt.Errorf("list the volume: %w", err)
	}
	if err := r.checkRoot(); err != nil {
		return err
	}
	for _, name := range list {
		r.checkLink(name)
		if strings.HasPrefix(name, "..") {
			continue
		}
		if err := r.readSet(name, name); err != nil {
			return err
		}
	}
	return nil
}

// checkRoot looks at the one directory of an Atomic volume that belongs to no version.
func (r *reader) checkRoot() error {
	var st unix.Stat_t
	if err := unix.Fstat(r.root, &st); err != nil {
		return fmt.Errorf("stat the volume: %w", err)
	}
	r.checkLastingDir(".", &st)
	return nil
}

// checkLastingDir looks at a directory that stays from version to version: it may have the owner of either.
func (r *reader) checkLastingDir(p string, st *unix.Stat_t) {
	o := r.task.Owners
	uid := o.Reader
	if o.Alternates && st.Uid == 0 {
		uid = 0
	}
	r.checkStat(p, st, o.dirMode(), uid)
}

// checkLink counts a symlink where there must be none.
func (r *reader) checkLink(name string) {
	var st unix.Stat_t
	err := unix.Fstatat(r.root, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if !r.task.Linked && err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		r.fault(&r.Symlinks, "%s is a symlink", name)
	}
}

// set is what was read through one open directory, or one open file.
type set struct {
	files map[string]found
	dirs  map[string]unix.Stat_t
	// current means that no update had taken it away when all was read.
	current bool
}

type found struct {
	stat    unix.Stat_t
	data    []byte
	version int
}

// readSet reads what name in the root leads to, a file or a directory with all that is in it, and compares it with the
// version that it is of. prefix is its path in the version.
func (r *reader) readSet(name, prefix string) error {
	fd, ok := r.open(r.root, name)
	if !ok {
		return nil
	}
	defer unix.Close(fd)
	s := set{files: map[string]found{}, dirs: map[string]unix.Stat_t{}}
	if err := r.read(&s, fd, prefix); err != nil {
		return err
	}
	if !r.task.Linked {
		for p, st := range s.dirs {
			r.checkLastingDir(p, &st)
		}
		return r.checkEach(&s)
	}
	s.current = r.leadsTo(name, fd)
	return r.checkSet(&s, prefix)
}

// leadsTo reports whether name still leads to what was opened as fd. As long as it is open nothing else has its number.
func (r *reader) leadsTo(name string, fd int) bool {
	var now, opened unix.Stat_t
	return unix.Fstatat(r.root, name, &now, 0) == nil && unix.Fstat(fd, &opened) == nil && now.Ino == opened.Ino
}

// open opens a name that was listed. It is not a fault if the name has gone or been replaced meanwhile.
func (r *reader) open(dir int, name string) (fd int, ok bool) {
	r.Opens++
	var before, after unix.Stat_t
	gone := unix.Fstatat(dir, name, &before, unix.AT_SYMLINK_NOFOLLOW) != nil
	start := time.Now()
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		return fd, true
	}
	if time.Since(start) > r.task.Grace {
		r.Late++
		return -1, false
	}
	gone = gone || unix.Fstatat(dir, name, &after, unix.AT_SYMLINK_NOFOLLOW) != nil || before.Ino != after.Ino
	if !gone {
		r.fault(&r.FailedOpens, "open %s, which was there all the time: %v", name, err)
	}
	return -1, false
}

// read enters what is open as fd and, if it is a directory, all that is in it.
func (r *reader) read(s *set, fd int, p string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", p, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return r.readFile(s, fd, p, st)
	}
	s.dirs[p] = st
	list, err := names(fd)
	if err != nil && !errors.Is(err, unix.ENOENT) { // That: the directory was removed meanwhile.
		return fmt.Errorf("list %s: %w", p, err)
	}
	for _, name := range list {
		below, ok := r.open(fd, name)
		if !ok {
			continue
		}
		err := r.read(s, below, path.Join(p, name))
		if err := errors.Join(err, unix.Close(below)); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readFile(s *set, fd int, p string, st unix.Stat_t) error {
	r.Reads++
	data, err := r.readAll(fd)
	if err != nil {
		return fmt.Errorf("read %s: %w", p, err)
	}
	f := found{stat: st, data: data}
	number, _, _ := bytes.Cut(data, []byte(" "))
	if f.version, err = strconv.Atoi(string(number)); err == nil {
		s.files[p] = f
	} else {
		r.fault(&r.Torn, "%s has no version: %.40q", p, data)
	}
	return nil
}

func (r *reader) readAll(fd int) ([]byte, error) {
	if r.buf == nil {
		r.buf = make([]byte, 1<<16)
	}
	for n := 0; ; {
		more, err := unix.Read(fd, r.buf[n:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case more == 0:
			return bytes.Clone(r.buf[:n]), nil
		}
		n += more
	}
}

// names lists an open directory from its beginning.
func names(fd int) ([]string, error) {
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return nil, err
	}
	var list []string
	buf := make([]byte, 1<<13)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return list, err
		}
		_, _, list = unix.ParseDirent(buf[:n], -1, list)
	}
}

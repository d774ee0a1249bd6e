package soak

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// How often a reader reads a volume before it goes to the next.
const (
	readings   = 60
	betweenMax = 4 * time.Millisecond
)

// startReaders has volumes read all the time, until the returned function is called.
func (r *run) startReaders() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	for i, read := range []func(context.Context, *rand.Rand){r.beHasty, r.readOne, r.readOne} {
		random := rand.New(rand.NewPCG(r.seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil && !r.failed.Load() {
				read(ctx, random)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// readOne reads one volume a number of times.
func (r *run) readOne(ctx context.Context, random *rand.Rand) {
	v := r.anyLive(random)
	if v == nil {
		pause(ctx, 10*time.Millisecond)
		return
	}
	for range readings {
		r.resting.RLock()
		isLive, err := r.look(v)
		r.resting.RUnlock()
		if err != nil {
			r.failf("a reader of volume %s (%s): %v", v, v.describe(), err)
		}
		if !isLive || err != nil || ctx.Err() != nil {
			return
		}
		pause(ctx, time.Duration(random.Int64N(int64(betweenMax))))
	}
}

// anyLive returns a live volume; nil when there is none.
func (r *run) anyLive(random *rand.Rand) *vol {
	all := r.allVolumes(isMounted)
	if len(all) == 0 {
		return nil
	}
	return all[random.IntN(len(all))]
}

// look reads a volume once, if it is live, and judges what was read.
func (r *run) look(v *vol) (isLive bool, err error) {
	v.gate.RLock()
	defer v.gate.RUnlock()
	r.mu.Lock()
	isLive, f := v.state == live, floorsOf(v)
	r.mu.Unlock()
	if !isLive {
		return false, nil
	}
	r.reads.Add(1)
	s, err := v.read()
	if err != nil {
		return true, err
	}
	r.mu.Lock()
	err = r.judge(v, s, f)
	if err == nil && v.policy == neverPolicy && v.pinned == nil {
		v.pinned = s.sums()
	}
	r.mu.Unlock()
	if err != nil && v.isPlain() { // A directory that changes may be listed with names missing.
		return true, r.lookAgain(v, f)
	}
	return true, err
}

// lookAgain reports whether what was wrong with plain files was more than a directory that was listed while it changed.
func (r *run) lookAgain(v *vol, f floors) error {
	var err error
	for range 3 {
		var s snapshot
		if s, err = v.read(); err != nil {
			return err
		}
		r.mu.Lock()
		err = r.judge(v, s, f)
		r.mu.Unlock()
		if err == nil {
			return nil
		}
	}
	return err
}

// How long a hasty reader waits for changes of a volume before it goes to the next.
const (
	hastyTurns = 40
	hastyWait  = 20 * time.Millisecond
)

// beHasty waits for changes of a volume, as programs do, and opens every name in it at the very moment of one: when a
// driver is most likely to be in the middle of it.
func (r *run) beHasty(ctx context.Context, random *rand.Rand) {
	v := r.anyLive(random)
	if v == nil {
		pause(ctx, hastyWait)
		return
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		r.failf("watch a volume: %v", err)
		return
	}
	defer unix.Close(fd)
	for turn := range hastyTurns {
		isLive, err := r.lookHastily(v, fd, turn == 0)
		if err != nil {
			r.failf("a hasty reader of volume %s (%s): %v", v, v.describe(), err)
		}
		if !isLive || err != nil || ctx.Err() != nil {
			return
		}
	}
}

// lookHastily waits for one change, for a moment.
func (r *run) lookHastily(v *vol, fd int, isFirst bool) (isLive bool, err error) { //nolint:revive // Only then is the volume watched.
	r.resting.RLock()
	defer r.resting.RUnlock()
	v.gate.RLock()
	defer v.gate.RUnlock()
	r.mu.Lock()
	isLive = v.state == live
	r.mu.Unlock()
	if !isLive {
		return false, nil
	}
	if isFirst {
		const changes = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE
		if _, err := unix.InotifyAddWatch(fd, v.target, changes); err != nil {
			return true, err
		}
	}
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(hastyWait.Milliseconds()))
	if ready == 0 || errors.Is(err, unix.EINTR) {
		return true, nil
	}
	names, err := os.ReadDir(v.target)
	if err != nil {
		return true, err
	}
	for _, name := range names {
		if strings.HasPrefix(name.Name(), "..") {
			continue
		}
		if err := opens(filepath.Join(v.target, name.Name())); err != nil {
			return true, err
		}
	}
	r.hasty.Add(1)
	buf := make([]byte, 1<<14)
	if _, err := unix.Read(fd, buf); err != nil && !errors.Is(err, unix.EAGAIN) {
		return true, err
	}
	return true, nil
}

// file is what was read of one.
type file struct {
	data []byte
	stat unix.Stat_t
	// from and source are what the file was made of, once it is known.
	from   origin
	source int
}

// snapshot is what was read of a volume. Paths are below the volume.
type snapshot struct {
	files map[string]file
	dirs  map[string]unix.Stat_t
	names []string // In the root, those that users see.
	// reserved are the other names in the root.
	reserved []string
}

// sums returns what the files are, to compare them with later ones.
func (s snapshot) sums() map[string]string {
	sums := make(map[string]string, len(s.files))
	for p, f := range s.files {
		sums[p] = fmt.Sprintf("%x", sha256.Sum256(f.data))
	}
	return sums
}

// grace is less than replaced files stay: a user a reader that takes longer to open a file may find nothing.
const grace = 200 * time.Millisecond

// read reads a volume that may change meanwhile, and opens every name in it.
func (v *vol) read() (snapshot, error) {
	s := snapshot{files: map[string]file{}, dirs: map[string]unix.Stat_t{}}
	if err := s.readNames(v.target); err != nil {
		return s, err
	}
	if !v.isPlain() {
		return s, s.readGeneration(v.target)
	}
	fd, err := unix.Open(v.target, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s, err
	}
	defer unix.Close(fd)
	return s, s.walk(fd, "")
}

// readNames lists the volume. A name that is listed can be opened, unless it is gone.
func (s *snapshot) readNames(target string) error {
	entries, err := os.ReadDir(target)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..kept-") { // The empty inode of a file that may come back.
			if info, err := entry.Info(); err != nil || info.Size() == 0 {
				continue
			}
		}
		if strings.HasPrefix(entry.Name(), "..") {
			s.reserved = append(s.reserved, entry.Name())
			continue
		}
		s.names = append(s.names, entry.Name())
		if err := opens(filepath.Join(target, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// opens opens a name that was listed. It is not an error when it has gone, or was replaced, or when the walk took too long.
func opens(path string) error {
	var before, after unix.Stat_t
	isGone := unix.Lstat(path, &before) != nil
	start := time.Now()
	f, err := os.Open(path)
	if err == nil {
		return f.Close()
	}
	isFault := !isGone && time.Since(start) < grace && unix.Lstat(path, &after) == nil && before.Ino == after.Ino
	if isFault {
		return fmt.Errorf("a name that is there cannot be opened: %w", err)
	}
	return nil
}

// readGeneration reads the generation that ..data leads to. One that is replaced meanwhile is left for the next.
func (s *snapshot) readGeneration(target string) error {
	link := filepath.Join(target, "..data")
	for range 1000 {
		fd, err := unix.Open(link, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			var there unix.Stat_t
			if statErr := unix.Lstat(link, &there); statErr != nil {
				return fmt.Errorf("the volume has no ..data: %w", errors.Join(err, statErr))
			}
			if unix.Stat(link, &there) != nil {
				return fmt.Errorf("..data leads nowhere: %w", err)
			}
			continue // It has changed on the way.
		}
		clear(s.files)
		clear(s.dirs)
		err = s.walk(fd, "")
		var opened, now unix.Stat_t
		isCurrent := unix.Fstat(fd, &opened) == nil && unix.Stat(link, &now) == nil && opened.Ino == now.Ino
		_ = unix.Close(fd)
		if isCurrent {
			return err
		}
	}
	return errors.New("no generation could be read before the next came")
}

// walk reads what is below an open directory. What goes meanwhile is left out.
func (s *snapshot) walk(fd int, dir string) error {
	list, err := namesIn(fd)
	if err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	for _, name := range list {
		if dir == "" && strings.HasPrefix(name, "..") {
			continue
		}
		if err := s.enter(fd, dir, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *snapshot) enter(dirFD int, dir, name string) error {
	p := path.Join(dir, name)
	fd, err := unix.Openat(dirFD, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		var st unix.Stat_t
		if unix.Fstatat(dirFD, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return nil
		}
		return fmt.Errorf("open %s: %w", p, err)
	}
	opened := os.NewFile(uintptr(fd), p)
	defer opened.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", p, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		s.dirs[p] = st
		return s.walk(fd, p)
	}
	data, err := io.ReadAll(opened)
	s.files[p] = file{data: data, stat: st}
	return err
}

// namesIn lists an open directory. One that was removed is empty.
func namesIn(fd int) ([]string, error) {
	var list []string
	buf := make([]byte, 1<<13)
	for {
		n, err := unix.ReadDirent(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOENT):
			return list, nil
		case err != nil || n <= 0:
			return list, err
		}
		_, _, list = unix.ParseDirent(buf[:n], -1, list)
	}
}

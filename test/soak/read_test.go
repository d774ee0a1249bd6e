package soak

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
	if v.isPlain() {
		return s, s.readPlain(v.target)
	}
	return s, s.readGeneration(v.target)
}

// readNames lists the volume. A name that is listed can be opened, unless it is gone.
func (s *snapshot) readNames(target string) error {
	entries, err := os.ReadDir(target)
	if err != nil {
		return err
	}
	for _, entry := range entries {
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

func (s *snapshot) readPlain(target string) error {
	fd, err := unix.Open(target, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return s.walk(fd, "")
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

// Package selfcopy copies the program that runs, for a container of another image. It does not know
// what the program does.
package selfcopy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// To puts a copy of this program into a directory, under a name. An image without a shell has no
// other way to hand it on. One that is there already, and may be running, is replaced as a whole.
func To(dir, program string) error {
	// This name also leads to a program whose path cannot be known.
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	defer own.Close()
	temp, err := os.CreateTemp(dir, "."+program+"-*")
	if err != nil {
		return fmt.Errorf("--copy-to %s: %w", dir, creating(err))
	}
	err = errors.Join(fill(temp, own), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), filepath.Join(dir, program))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("--copy-to %s: %w", dir, err), os.Remove(temp.Name()))
	}
	return nil
}

// fill makes a file a program that every user may run.
func fill(file *os.File, content io.Reader) error {
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	return file.Chmod(0o755)
}

// creating returns what to do about an error.
func creating(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return errors.New("there is no such directory; is the volume mounted there?")
	case errors.Is(err, unix.ENOTDIR):
		return errors.New("it is not a directory")
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("user %d may not write there: %w", os.Geteuid(), unix.EACCES)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("mount it without readOnly here: %w", unix.EROFS)
	}
	return err
}

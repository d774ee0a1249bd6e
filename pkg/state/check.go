package state

import (
	"errors"
	"fmt"
	"os"
)

// Check returns why no record could be written now. It writes a file that nobody reads and removes it, and makes the
// directory again if somebody has removed it.
func (s *Store) Check() error {
	if err := s.files.check(); err != nil {
		return fmt.Errorf("write to the state directory: %w", err)
	}
	return nil
}

func (f *Files) check() error {
	if err := f.makeDir(); err != nil {
		return err
	}
	temp, err := f.createTemp()
	if err != nil {
		return err
	}
	_, err = temp.WriteString("\n") // A file system that is full still makes an empty file.
	return errors.Join(err, temp.Close(), os.Remove(temp.Name()))
}

package state

import "fmt"

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
	return f.tryWriting([]byte("\n")) // A file system that is full still makes an empty file.
}
